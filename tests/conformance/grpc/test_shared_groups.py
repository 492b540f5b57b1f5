"""Groups with members of this door and of Kafka's clients: one group, which Kafka's tools show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import confluent_kafka
import grpc
import pytest
from confluent_kafka.admin import AdminClient
from tests.conformance.grpc.door_process import DoorProcess
from tests.conformance.grpc.stubs import Client, refusal, refused
from tests.waiting import wait_until

from tidelog.gateways.grpc.generated import api_pb2 as api
from tidelog.gateways.grpc.generated import mq_pb2 as mq


class Follower:
    """Reads a stream in a thread, as fast as it comes."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.found: list[Any] = []
        self.error: Exception | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for message in self.stream:
                self.found.append(message)
        except Exception as error:
            self.error = error

    @property
    def partitions(self) -> set[int]:
        return {message.partition for message in self.found}

    def stop(self) -> None:
        self.stream.cancel()
        self._thread.join(10)


def subscribe(client: Client, group: str, topic: str) -> Follower:
    return Follower(client.mq.Subscribe(mq.SubscribeRequest(group_id=group, topic=topic, start_offset=-2), 60))


def produce(client: Client, topic: str, value: bytes, partition: int) -> None:
    client.mq.Produce(mq.ProduceRequest(topic=topic, value=value, acks=-1, partition=partition))


@pytest.fixture
def consumer(door: DoorProcess, name: str) -> Iterator[confluent_kafka.Consumer]:
    opened = confluent_kafka.Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{door.port}",
            "group.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
        }
    )
    yield opened
    opened.close()


def poll_until(consumer: confluent_kafka.Consumer, condition: Callable[[], bool], what: str) -> None:
    def step() -> bool:
        consumer.poll(0.05)
        return condition()

    wait_until(step, what, 20)


def test_a_stream_and_a_kafka_consumer_share_a_topic(
    client: Client, door: DoorProcess, consumer: confluent_kafka.Consumer, topic: str, name: str
) -> None:
    follower = subscribe(client, name, topic)
    for partition in (0, 1):
        produce(client, topic, b"first", partition)
    wait_until(lambda: follower.partitions == {0, 1}, "the stream alone has both partitions")
    for partition in (0, 1):
        asked = mq.CommitOffsetRequest(group_id=name, topic=topic, partition=partition, offset=1)
        assert client.mq.CommitOffset(asked).success
    consumer.subscribe([topic])
    poll_until(consumer, lambda: len(consumer.assignment()) == 1, "the consumer has one of them")
    [taken] = [each.partition for each in consumer.assignment()]
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{door.port}"})
    described = admin.describe_consumer_groups([name])[name].result(10)
    shown = {
        member.client_id: {each.partition for each in member.assignment.topic_partitions}
        for member in described.members
    }
    assert shown == {"grpc": {1 - taken}, "rdkafka": {taken}}

    # Each gets what comes now in its own partition, and the commits of the other were taken over.
    for partition in (0, 1):
        produce(client, topic, b"second", partition)
    read: list[bytes] = []

    def has_read() -> bool:
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            read.append(message.value())
        return read == [b"second"]

    wait_until(has_read, "the consumer goes on behind the commit of the stream", 10)
    wait_until(lambda: follower.found[-1].value == b"second", "the stream goes on")
    assert [message.value for message in follower.found].count(b"second") == 1

    # A commit for a partition that the consumer has now is refused: no member of this node has it.
    foreign = mq.CommitOffsetRequest(group_id=name, topic=topic, partition=taken, offset=2)
    assert refused(client.mq.CommitOffset, foreign) == ("FAILED_PRECONDITION", "UNKNOWN_MEMBER_ID")
    foreign.partition = 1 - taken
    assert client.mq.CommitOffset(foreign).success

    consumer.unsubscribe()
    produce(client, topic, b"third", taken)
    poll_until(consumer, lambda: follower.found[-1].value == b"third", "the stream has both again")
    follower.stop()


def test_two_streams_share_a_topic(client: Client, topic: str, name: str) -> None:
    first = subscribe(client, name, topic)
    produce(client, topic, b"a", 0)
    wait_until(lambda: len(first.found) == 1, "the first stream reads")
    second = subscribe(client, name, topic)

    def both_have_something() -> bool:
        for partition in (0, 1):
            produce(client, topic, b"more", partition)
        return bool(second.found)

    wait_until(both_have_something, "the second stream has a partition", 20)
    assert len(second.partitions) == 1
    first.stop()
    before = len(second.found)

    def second_has_both() -> bool:
        for partition in (0, 1):
            produce(client, topic, b"more", partition)
        return {message.partition for message in second.found[before:]} == {0, 1}

    wait_until(second_has_both, "the second stream has both", 20)
    second.stop()
    assert [error for error in (first.error, second.error) if error and refusal_code(error) != "CANCELLED"] == []


def refusal_code(error: Any) -> str:
    return str(error.code().name)


def test_members_of_both_services_share_a_group(client: Client, topic: str, name: str) -> None:
    """The client of `mq` leads and assigns, also to the consumer of `api`."""
    leader = client.mq.JoinGroup(mq.JoinGroupRequest(group_id=name, topics=[topic]))
    assert leader.leader_id == leader.member_id
    alone = {leader.member_id: mq.PartitionAssignments(partitions=[0, 1])}
    asked = mq.SyncGroupRequest(
        group_id=name, member_id=leader.member_id, generation_id=leader.generation_id, assignment=alone
    )
    assert list(client.mq.SyncGroup(asked).assignment[topic].partitions) == [0, 1]
    joining = client.api.JoinGroup.future(api.JoinGroupRequest(group_id=name, consumer_id="named", topic=topic))
    heartbeat = mq.HeartbeatRequest(group_id=name, member_id=leader.member_id, generation_id=leader.generation_id)
    wait_until(lambda: not beats(client, heartbeat), "the group rebalances")
    led = client.mq.JoinGroup(mq.JoinGroupRequest(group_id=name, member_id=leader.member_id, topics=[topic]))
    assert not joining.result(10).is_leader
    [other] = [member for member in led.members if member != led.member_id]
    syncing = client.api.SyncGroup.future(api.SyncGroupRequest(group_id=name, consumer_id="named"))
    asked.generation_id = led.generation_id
    asked.assignment[led.member_id].partitions[:] = [1]
    asked.assignment[other].partitions[:] = [0]
    assert list(client.mq.SyncGroup(asked).assignment[topic].partitions) == [1]
    assert list(syncing.result(10).assignment.partitions) == [0]
    assert client.mq.LeaveGroup(mq.LeaveGroupRequest(group_id=name, member_id=led.member_id)).success


def beats(client: Client, heartbeat: mq.HeartbeatRequest) -> bool:
    try:
        return bool(client.mq.Heartbeat(heartbeat).success)
    except grpc.RpcError as error:
        return refusal(error) != ("ABORTED", "REBALANCE_IN_PROGRESS")


def test_a_leader_with_a_member_of_two_topics(client: Client, topic: str, name: str) -> None:
    client.mq.CreateTopic(mq.CreateTopicRequest(topic=f"{name}-other", partitions=1))
    joined = client.mq.JoinGroup(mq.JoinGroupRequest(group_id=name, topics=[topic, f"{name}-other"]))
    asked = mq.SyncGroupRequest(group_id=name, member_id=joined.member_id, generation_id=joined.generation_id)
    asked.assignment[joined.member_id].partitions[:] = [0]
    assert refused(client.mq.SyncGroup, asked) == ("INVALID_ARGUMENT", "INVALID_REQUEST")


def test_new_partitions_are_given_to_members(client: Client, topic: str, name: str) -> None:
    from tidelog.gateways.grpc.generated import tidelog_pb2 as v1

    follower = subscribe(client, name, topic)
    produce(client, topic, b"v", 0)
    wait_until(lambda: follower.partitions == {0}, "the stream reads")
    client.log.CreatePartitions(v1.CreatePartitionsRequest(topic=topic, partitions=3))
    produce(client, topic, b"v", 2)
    wait_until(lambda: follower.partitions == {0, 2}, "the stream has the new partition", 20)
    follower.stop()


def test_keys_go_where_kafkas_clients_put_them(client: Client, door: DoorProcess, topic: str) -> None:
    placed: dict[bytes, int] = {}
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": f"127.0.0.1:{door.port}", "partitioner": "murmur2_random"}
    )
    keys = [b"k" * size + b"%d" % size for size in range(20)]
    for key in keys:
        producer.produce(
            topic, b"v", key, on_delivery=lambda _, message: placed.update({message.key(): message.partition()})
        )
    producer.flush(10)
    for key in keys:
        answer = client.mq.Produce(mq.ProduceRequest(topic=topic, key=key, value=b"v", acks=1, partition=-1))
        assert answer.partition == placed[key]
