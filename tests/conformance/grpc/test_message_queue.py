"""`mq.MessageQueue` on a real node: every call, and wrong input to each."""

from __future__ import annotations

import time
from itertools import islice

import grpc
import pytest
from tests.conformance.grpc.stubs import Client, refused

from tidelog.gateways.grpc.generated.mq_pb2 import (
    CommitOffsetRequest,
    ConsumeRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    DescribeClusterRequest,
    DescribeTopicRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListTopicsRequest,
    PartitionAssignments,
    ProduceRequest,
    SeekRequest,
    SubscribeRequest,
    SyncGroupRequest,
)


def test_a_record_comes_back_as_it_was(client: Client, topic: str) -> None:
    before_ms = int(time.time() * 1000)
    sent = ProduceRequest(topic=topic, key=b"k", value=b"v", headers={"a": "1", "ä": "ö"}, acks=-1, partition=1)
    produced = client.mq.Produce(sent)
    assert (produced.offset, produced.partition) == (0, 1)
    assert before_ms <= produced.timestamp <= before_ms + 10_000
    answer = client.mq.Consume(ConsumeRequest(topic=topic, partition=1, offset=0))
    [message] = answer.messages
    assert (message.key, message.value, dict(message.headers)) == (b"k", b"v", {"a": "1", "ä": "ö"})
    assert (message.topic, message.partition, message.offset, message.timestamp) == (topic, 1, 0, produced.timestamp)
    assert answer.high_watermark == 1


def test_partition_and_acks_are_taken_literally(client: Client, topic: str) -> None:
    by_key = {client.mq.Produce(ProduceRequest(topic=topic, key=b"k", acks=1, partition=-1)).partition for _ in "123"}
    assert len(by_key) == 1
    assert client.mq.Produce(ProduceRequest(topic=topic, value=b"v")).offset == -1
    assert client.mq.Produce(ProduceRequest(topic=topic, value=b"v", acks=1)).offset >= 1


def test_a_first_record_creates_the_topic(client: Client, name: str) -> None:
    assert refused(client.mq.Consume, ConsumeRequest(topic=name))[0] == "NOT_FOUND"
    assert client.mq.Produce(ProduceRequest(topic=name, value=b"v", acks=-1)).offset == 0


def test_a_stream_is_answered_for_its_last_record(client: Client, topic: str) -> None:
    records = [ProduceRequest(topic=topic, value=b"%d" % n, acks=-1, partition=n % 2) for n in range(1001)]
    answer = client.mq.ProduceStream(iter(records))
    assert (answer.offset, answer.partition) == (500, 0)
    for partition, count in ((0, 501), (1, 500)):
        messages = client.mq.Consume(ConsumeRequest(topic=topic, partition=partition)).messages
        assert [int(message.value) for message in messages] == list(range(partition, 1001, 2))
        assert len(messages) == count


def test_a_stream_with_large_records_is_cut_into_batches(client: Client, topic: str) -> None:
    records = (ProduceRequest(topic=topic, value=b"x" * 300_000, acks=1) for _ in range(12))
    assert client.mq.ProduceStream(records).offset == 11


def test_a_stream_ends_at_its_first_fault(client: Client, topic: str) -> None:
    def without_end() -> object:
        yield ProduceRequest(topic=topic, value=b"v", acks=1)
        yield ProduceRequest(topic=topic, value=b"v", acks=1, partition=9)
        time.sleep(10)
        yield ProduceRequest(topic=topic, value=b"v", acks=1)

    begun_s = time.monotonic()
    assert refused(client.mq.ProduceStream, without_end()) == ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION")
    assert time.monotonic() - begun_s < 5, "the client learns of it before it sends more"
    assert refused(client.mq.ProduceStream, iter(())) == ("INVALID_ARGUMENT", "INVALID_REQUEST")


def test_consume_reads_about_as_much_as_asked(client: Client, topic: str) -> None:
    client.mq.ProduceStream(ProduceRequest(topic=topic, value=b"x" * 1000, acks=1) for _ in range(100))
    read = client.mq.Consume(ConsumeRequest(topic=topic, max_bytes=10_000)).messages
    assert 5 <= len(read) <= 10
    assert len(client.mq.Consume(ConsumeRequest(topic=topic, max_bytes=1)).messages) == 1
    rest = client.mq.Consume(ConsumeRequest(topic=topic, offset=len(read))).messages
    assert [message.offset for message in rest] == list(range(len(read), 100))
    at_end = client.mq.Consume(ConsumeRequest(topic=topic, offset=100))
    assert (list(at_end.messages), at_end.high_watermark) == ([], 100)


def test_subscribe_follows_a_partition(client: Client, topic: str) -> None:
    client.mq.ProduceStream(ProduceRequest(topic=topic, value=b"%d" % n, acks=1) for n in range(10))
    earliest = client.mq.Subscribe(SubscribeRequest(topic=topic, start_offset=-2))
    assert [message.offset for message in islice(earliest, 10)] == list(range(10))
    client.mq.Produce(ProduceRequest(topic=topic, value=b"new", acks=1))
    assert next(earliest).value == b"new"
    earliest.cancel()
    from_offset = client.mq.Subscribe(SubscribeRequest(topic=topic, start_offset=7))
    assert next(from_offset).offset == 7
    from_offset.cancel()


def test_deadlines_are_honoured(client: Client, topic: str) -> None:
    begun_s = time.monotonic()
    with pytest.raises(grpc.RpcError) as caught:
        next(client.mq.Subscribe(SubscribeRequest(topic=topic, start_offset=-1), timeout=0.3))
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - begun_s < 3


def test_seek_resolves_offsets(client: Client, topic: str) -> None:
    client.mq.ProduceStream(ProduceRequest(topic=topic, value=b"v", acks=1) for _ in range(5))
    found = [client.mq.Seek(SeekRequest(topic=topic, offset=offset)).offset for offset in (-1, -2, 3, 5)]
    assert found == [5, 0, 3, 5]


def test_topics(client: Client, name: str) -> None:
    created = client.mq.CreateTopic(CreateTopicRequest(topic=name, partitions=3))
    assert (created.success, created.error) == (True, "")
    again = CreateTopicRequest(topic=name, partitions=3)
    assert refused(client.mq.CreateTopic, again) == ("ALREADY_EXISTS", "TOPIC_ALREADY_EXISTS")
    assert name in client.mq.ListTopics(ListTopicsRequest()).topics
    assert not [each for each in client.mq.ListTopics(ListTopicsRequest()).topics if each.startswith("__")]
    client.mq.Produce(ProduceRequest(topic=name, value=b"v", acks=1, partition=2))
    described = client.mq.DescribeTopic(DescribeTopicRequest(topic=name))
    assert (described.topic, described.partitions) == (name, 3)
    info = described.partition_info[2]
    assert (info.partition_id, info.high_water_mark, info.log_end_offset) == (2, 1, 1)
    assert info.leader == info.replicas[0] == info.isr[0]
    assert client.mq.DeleteTopic(DeleteTopicRequest(topic=name)).success
    assert refused(client.mq.DescribeTopic, DescribeTopicRequest(topic=name))[0] == "NOT_FOUND"


def test_the_cluster(client: Client) -> None:
    cluster = client.mq.DescribeCluster(DescribeClusterRequest())
    assert [broker.id for broker in cluster.brokers] == [cluster.broker_id]
    assert len(cluster.cluster_id) == 22


@pytest.mark.parametrize(
    ("method", "request_", "expected"),
    [
        ("Produce", ProduceRequest(value=b"v"), ("INVALID_ARGUMENT", "INVALID_REQUEST")),
        ("Produce", ProduceRequest(topic="a b", value=b"v"), ("INVALID_ARGUMENT", "INVALID_TOPIC_EXCEPTION")),
        ("Produce", ProduceRequest(topic="there", acks=2), ("INVALID_ARGUMENT", "INVALID_REQUIRED_ACKS")),
        ("Produce", ProduceRequest(topic="there", partition=-2), ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION")),
        ("Produce", ProduceRequest(topic="there", value=b"x" * 2**21), ("INVALID_ARGUMENT", "MESSAGE_TOO_LARGE")),
        ("Consume", ConsumeRequest(topic="there", offset=99), ("OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE")),
        ("Consume", ConsumeRequest(topic="there", offset=-1), ("OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE")),
        ("Consume", ConsumeRequest(topic="there", max_bytes=-1), ("INVALID_ARGUMENT", "INVALID_REQUEST")),
        ("Consume", ConsumeRequest(topic="there", partition=9), ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION")),
        ("Subscribe", SubscribeRequest(topic="there", start_offset=-3), ("INVALID_ARGUMENT", "INVALID_REQUEST")),
        ("Subscribe", SubscribeRequest(topic="there", start_offset=99), ("OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE")),
        ("Subscribe", SubscribeRequest(topic="not-there"), ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION")),
        ("Subscribe", SubscribeRequest(topic="not-there", group_id="g"), ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION")),
        ("Subscribe", SubscribeRequest(), ("INVALID_ARGUMENT", "INVALID_REQUEST")),
        ("Seek", SeekRequest(topic="there", offset=-3), ("INVALID_ARGUMENT", "INVALID_REQUEST")),
        ("Seek", SeekRequest(topic="there", offset=99), ("OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE")),
        ("Seek", SeekRequest(topic="not-there", offset=-1), ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION")),
        ("CreateTopic", CreateTopicRequest(topic="a/b"), ("INVALID_ARGUMENT", "INVALID_TOPIC_EXCEPTION")),
        ("CreateTopic", CreateTopicRequest(topic="n", partitions=-1), ("INVALID_ARGUMENT", "INVALID_REQUEST")),
        (
            "CreateTopic",
            CreateTopicRequest(topic="n", replication_factor=3),
            ("INVALID_ARGUMENT", "INVALID_REPLICATION_FACTOR"),
        ),
        ("DeleteTopic", DeleteTopicRequest(topic="not-there"), ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION")),
        ("DescribeTopic", DescribeTopicRequest(topic="not-there"), ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION")),
        ("CommitOffset", CommitOffsetRequest(topic="there"), ("INVALID_ARGUMENT", "INVALID_REQUEST")),
        (
            "CommitOffset",
            CommitOffsetRequest(group_id="g", topic="there", offset=-1),
            ("INVALID_ARGUMENT", "INVALID_REQUEST"),
        ),
        (
            "CommitOffset",
            CommitOffsetRequest(group_id="g", topic="not-there"),
            ("NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION"),
        ),
        ("JoinGroup", JoinGroupRequest(group_id="g"), ("INVALID_ARGUMENT", "INVALID_REQUEST")),
        ("JoinGroup", JoinGroupRequest(topics=["there"]), ("INVALID_ARGUMENT", "INVALID_GROUP_ID")),
        (
            "JoinGroup",
            JoinGroupRequest(group_id="g", member_id="x", topics=["there"]),
            ("NOT_FOUND", "UNKNOWN_MEMBER_ID"),
        ),
        ("SyncGroup", SyncGroupRequest(group_id="g", member_id="x"), ("NOT_FOUND", "UNKNOWN_MEMBER_ID")),
        (
            "SyncGroup",
            SyncGroupRequest(group_id="g", member_id="x", assignment={"x": PartitionAssignments(partitions=[0])}),
            ("NOT_FOUND", "UNKNOWN_MEMBER_ID"),
        ),
        ("Heartbeat", HeartbeatRequest(group_id="g", member_id="x"), ("NOT_FOUND", "UNKNOWN_MEMBER_ID")),
        ("LeaveGroup", LeaveGroupRequest(group_id="g", member_id="x"), ("NOT_FOUND", "UNKNOWN_MEMBER_ID")),
    ],
)
def test_wrong_input(client: Client, method: str, request_: object, expected: tuple[str, str]) -> None:
    client.mq.Produce(ProduceRequest(topic="there", value=b"v", acks=1))
    assert refused(getattr(client.mq, method), request_) == expected
