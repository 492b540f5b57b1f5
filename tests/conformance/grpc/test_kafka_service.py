"""`api.Kafka` on a real node: every call, and wrong input to each."""

from __future__ import annotations

import pytest
from tests.conformance.grpc.stubs import Client, refused

from tidelog.gateways.grpc.generated import api_pb2 as api


def test_produce_and_consume(client: Client, topic: str) -> None:
    produced = client.api.Produce(api.ProduceRequest(topic=topic, partition=1, value=b"v", ack=api.ALL))
    assert (produced.offset, produced.error_code, produced.leader_addr) == (0, api.OK, "")
    unanswered = client.api.Produce(api.ProduceRequest(topic=topic, partition=1, value=b"w"))
    assert (unanswered.offset, unanswered.error_code) == (-1, api.OK)
    read = [client.api.Consume(api.ConsumeRequest(topic=topic, partition=1, offset=n)).record for n in range(3)]
    assert [(record.value, record.offset) for record in read] == [(b"v", 0), (b"w", 1), (b"", -1)]


def test_create_topic(client: Client, name: str) -> None:
    asked = api.CreateTopicRequest(topic=name, partitions=3)
    assert client.api.CreateTopic(asked).error_code == api.OK
    assert client.api.CreateTopic(asked).error_code == api.TOPIC_ALREADY_EXISTS


def test_a_consumer_keeps_its_name(client: Client, topic: str, name: str) -> None:
    asked = api.JoinGroupRequest(group_id=name, consumer_id="first", topic=topic)
    joined = client.api.JoinGroup(asked)
    assert (joined.leader_id, joined.is_leader, list(joined.members)) == ("first", True, ["first"])
    assert list(joined.partitions) == [0, 1]
    given = {"first": api.PartitionAssignment(partitions=[0, 1])}
    synced = client.api.SyncGroup(api.SyncGroupRequest(group_id=name, consumer_id="first", assignments=given))
    assert list(synced.assignment.partitions) == [0, 1]
    heartbeat = api.HeartbeatRequest(group_id=name, consumer_id="first")
    assert client.api.Heartbeat(heartbeat).error_code == api.OK
    commit = api.CommitOffsetRequest(consumer_group_id=name, topic=topic, partition=1, offset=5)
    client.api.CommitOffset(commit)
    fetch = api.FetchOffsetRequest(consumer_group_id=name, topic=topic, partition=1)
    assert client.api.FetchOffset(fetch).offset == 5
    fetch.partition = 0
    assert client.api.FetchOffset(fetch).offset == -1
    again = client.api.JoinGroup(asked)
    assert (again.leader_id, list(again.members)) == ("first", ["first"]), "it is the same member"


def test_two_consumers_share_a_topic(client: Client, topic: str, name: str, new_client: object) -> None:
    first = api.JoinGroupRequest(group_id=name, consumer_id="first", topic=topic)
    client.api.JoinGroup(first)
    given = {"first": api.PartitionAssignment(partitions=[0, 1])}
    client.api.SyncGroup(api.SyncGroupRequest(group_id=name, consumer_id="first", assignments=given))
    second = api.JoinGroupRequest(group_id=name, consumer_id="second", topic=topic)
    joining = client.api.JoinGroup.future(second)
    heartbeat = api.HeartbeatRequest(group_id=name, consumer_id="first")
    while client.api.Heartbeat(heartbeat).error_code != api.REBALANCE_IN_PROGRESS:
        pass
    led = client.api.JoinGroup(first)
    followed = joining.result(20)
    assert led.is_leader
    assert sorted(led.members) == ["first", "second"]
    assert (followed.leader_id, followed.is_leader, dict(followed.members)) == ("first", False, {})
    syncing = client.api.SyncGroup.future(api.SyncGroupRequest(group_id=name, consumer_id="second"))
    given = {each: api.PartitionAssignment(partitions=[n]) for n, each in enumerate(("first", "second"))}
    synced = client.api.SyncGroup(api.SyncGroupRequest(group_id=name, consumer_id="first", assignments=given))
    assert list(synced.assignment.partitions) == [0]
    assert list(syncing.result(20).assignment.partitions) == [1]


def test_a_consumer_that_nobody_knows(client: Client, name: str) -> None:
    asked = api.HeartbeatRequest(group_id=name, consumer_id="x")
    assert client.api.Heartbeat(asked).error_code == api.UNKNOWN_MEMBER_ID
    assert client.api.SyncGroup(api.SyncGroupRequest(group_id=name)).error_code == api.UNKNOWN_MEMBER_ID


def test_join_says_how_a_node_joins(client: Client) -> None:
    assert refused(client.api.Join, api.JoinRequest(node_id="4"))[0] == "FAILED_PRECONDITION"


@pytest.mark.parametrize(
    ("method", "request_", "expected"),
    [
        ("Produce", api.ProduceRequest(value=b"v"), "INVALID_ARGUMENT"),
        ("Produce", api.ProduceRequest(topic="here", partition=2**32 - 1), "NOT_FOUND"),
        ("Produce", api.ProduceRequest(topic="here", value=b"v", producer_id=2**62), "INVALID_ARGUMENT"),
        ("Consume", api.ConsumeRequest(topic="not-there"), "NOT_FOUND"),
        ("Consume", api.ConsumeRequest(topic="here", partition=2**32 - 1), "NOT_FOUND"),
        ("Consume", api.ConsumeRequest(topic="here", offset=99), "OUT_OF_RANGE"),
        ("CommitOffset", api.CommitOffsetRequest(topic="here"), "INVALID_ARGUMENT"),
        ("CommitOffset", api.CommitOffsetRequest(consumer_group_id="g", topic="here", offset=-1), "INVALID_ARGUMENT"),
        ("CommitOffset", api.CommitOffsetRequest(consumer_group_id="g", topic="here", partition=9), "NOT_FOUND"),
        ("FetchOffset", api.FetchOffsetRequest(topic="here"), "INVALID_ARGUMENT"),
        ("CreateTopic", api.CreateTopicRequest(topic="a/b", partitions=1), "INVALID_ARGUMENT"),
        ("CreateTopic", api.CreateTopicRequest(topic="big", partitions=2**32 - 1), "INVALID_ARGUMENT"),
        ("JoinGroup", api.JoinGroupRequest(group_id="g", topic="here"), "INVALID_ARGUMENT"),
        ("JoinGroup", api.JoinGroupRequest(consumer_id="c", topic="here"), "INVALID_ARGUMENT"),
        ("JoinGroup", api.JoinGroupRequest(group_id="g", consumer_id="c", topic="not-there"), "NOT_FOUND"),
    ],
)
def test_wrong_input(client: Client, method: str, request_: object, expected: str) -> None:
    client.api.Produce(api.ProduceRequest(topic="here", value=b"v", ack=api.ALL))
    assert refused(getattr(client.api, method), request_)[0] == expected


def test_a_leader_gives_only_what_it_may(client: Client, topic: str, name: str) -> None:
    client.api.JoinGroup(api.JoinGroupRequest(group_id=name, consumer_id="first", topic=topic))
    given = {"stranger": api.PartitionAssignment(partitions=[0])}
    asked = api.SyncGroupRequest(group_id=name, consumer_id="first", assignments=given)
    assert refused(client.api.SyncGroup, asked) == ("INVALID_ARGUMENT", "INVALID_REQUEST")
