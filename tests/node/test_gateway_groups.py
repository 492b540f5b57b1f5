"""Members of groups that gateways run, on real nodes: alone, beside Kafka's clients, and while coordinators move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.waiting import wait_until

from tidelog.gateways.access import LogAccess
from tidelog.gateways.consuming import PartitionReader, Reading
from tidelog.gateways.coordinator import GroupAccess
from tidelog.gateways.http.listener import HttpListener
from tidelog.gateways.membership import GroupMember, Reset, Subscription
from tidelog.gateways.reading import read_records
from tidelog.model import ids
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.node.stages import Loaded
from tidelog.testing.broker import Broker
from tidelog.testing.embedded_cluster import EmbeddedCluster

T = TypeVar("T")

SETTINGS = {
    "http.listen": "127.0.0.1:0",
    "default.replication.factor": "1",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(nodes=2, config=SETTINGS) as running:
        # Coordinators at both nodes, whatever the cluster would choose while a node is only just there.
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        offsets = NewTopic("__consumer_offsets", 12, replica_assignment=[[1, 2], [2, 1]] * 6)
        admin.create_topics([offsets], operation_timeout=30)["__consumer_offsets"].result(30)
        yield running


def at(broker: Broker, work: Callable[[LogAccess], Coroutine[Any, Any, T]]) -> T:
    """What a gateway of this node does for a client of it."""

    async def run() -> T:
        stage = broker.node.stage
        assert isinstance(stage, Loaded)
        [door] = stage.site.doors.gateways
        assert isinstance(door, HttpListener)
        return await work(door.introduce("127.0.0.1"))

    return broker.call(run)


async def until(condition: Callable[[], bool], what: str, deadline_s: float = 20.0) -> None:
    try:
        async with asyncio.timeout(deadline_s):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"never: {what}") from None


def new_member(access: LogAccess, group: str, topic: str, owner: Owner | None = None) -> GroupMember:
    return GroupMember(access, group, Subscription((topic,)), reset=Reset.EARLIEST, owner=owner)


class Owner:
    def __init__(self) -> None:
        self.member: GroupMember | None = None
        self.read_to: dict[ids.TopicPartition, int] = {}
        self.revoked: list[ids.TopicPartition] = []

    async def revoking(self, partitions: Collection[ids.TopicPartition]) -> None:
        assert self.member is not None
        self.revoked += partitions
        await self.member.commit({each: self.read_to[each] for each in partitions if each in self.read_to})

    def changed(self) -> None:
        pass


def fill(cluster: EmbeddedCluster, topic: str, partitions: int, records: int) -> None:
    cluster.create_topic(topic, partitions)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(30) == 0


def new_consumer(cluster: EmbeddedCluster, group: str, protocol: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **settings,
        }
    )


def test_two_members_at_two_nodes_share_the_partitions(cluster: EmbeddedCluster) -> None:
    fill(cluster, "shared", 6, 60)
    first_node, second_node = cluster.brokers
    owner = Owner()

    async def begin(access: LogAccess) -> GroupMember:
        owner.member = member = new_member(access, "sharing", "shared", owner)
        await member.start()
        await until(lambda: len(member.positions) == 6, "all partitions")
        owner.read_to = dict.fromkeys(member.positions, 7)
        return member

    first = at(first_node, begin)
    assert set(first.positions.values()) == {0}

    async def join(access: LogAccess) -> GroupMember:
        member = new_member(access, "sharing", "shared")
        await member.start()
        await until(lambda: len(member.positions) == 3, "half of the partitions")
        return member

    second = at(second_node, join)
    assert len(first.positions) == 3
    assert not first.positions.keys() & second.positions.keys()
    # What the first had committed when it gave them up is where the second begins.
    assert set(second.positions.values()) == {7}
    assert set(owner.revoked) == set(second.positions)
    at(first_node, lambda _: first.close())

    async def inherits(_: LogAccess) -> None:
        await until(lambda: len(second.positions) == 6, "the partitions of the one that left")
        await second.close()

    at(second_node, inherits)


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [
        ("classic", {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 300}),
        ("classic", {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 300}),
        ("consumer", {}),
    ],
    ids=["range", "cooperative", "consumer"],
)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_a_member_shares_a_group_with_a_kafka_client(
    cluster: EmbeddedCluster, protocol: str, settings: dict[str, Any], is_first: bool
) -> None:
    name = f"with-{protocol}-{len(str(settings))}-{is_first}"
    fill(cluster, name, 4, 4)
    consumer = new_consumer(cluster, name, protocol, **settings)
    node = cluster.brokers[1]

    def consumer_has(count: int) -> bool:
        consumer.poll(0.05)
        return len(consumer.assignment()) == count

    async def begin(access: LogAccess) -> GroupMember:
        member = new_member(access, name, name)
        await member.start()
        return member

    try:
        if is_first:
            member = at(node, begin)
            consumer.subscribe([name])
        else:
            consumer.subscribe([name])
            wait_until(lambda: consumer_has(4), "the client has the topic alone")
            member = at(node, begin)
        wait_until(lambda: consumer_has(2) and len(member.positions) == 2, "each has a half")
        theirs = {(each.topic, each.partition) for each in consumer.assignment()}
        assert not theirs & set(member.positions)

        async def commit(_: LogAccess) -> None:
            await member.commit(dict.fromkeys(member.positions, 1))

        at(node, commit)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        [described] = [each.result(20) for each in admin.describe_consumer_groups([name]).values()]
        assert described.state is ConsumerGroupState.STABLE
        assert sorted(len(each.assignment.topic_partitions) for each in described.members) == [2, 2]
        assert "http" in [each.client_id for each in described.members]
    finally:
        consumer.close()

    async def inherits(_: LogAccess) -> None:
        await until(lambda: len(member.positions) == 4, "what the client had")
        await member.close()

    at(node, inherits)
    kept = new_consumer(cluster, name, "classic")
    committed = kept.committed([TopicPartition(name, index) for index in range(4)], 20)
    assert sorted(each.offset for each in committed).count(1) >= 2
    kept.close()


def test_a_group_without_a_name_refuses_the_member(cluster: EmbeddedCluster) -> None:
    fill(cluster, "refused", 1, 1)

    async def join(access: LogAccess) -> None:
        member = GroupMember(access, "", Subscription(("refused",)))
        with pytest.raises(BrokerError) as refusal:
            await member.start()
        assert refusal.value.code in (ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_REQUEST)

    at(cluster.brokers[0], join)


async def start_and_fail(member: GroupMember) -> None:
    await member.start()
    await until(lambda: member.error is not None, "an error")
    assert member.error is not None
    raise member.error


def test_a_member_without_committed_offsets_and_without_a_reset_fails(cluster: EmbeddedCluster) -> None:
    fill(cluster, "none", 1, 1)

    async def join(access: LogAccess) -> None:
        member = GroupMember(access, "none", Subscription(("none",)), reset=Reset.NONE)
        with pytest.raises(BrokerError, match="no offset of none-0"):
            await start_and_fail(member)
        # It has left: another one need not wait for its session to end.
        other = new_member(access, "none", "none")
        await other.start()
        await until(lambda: len(other.positions) == 1, "the partition")
        await other.close()
        await member.close()

    at(cluster.brokers[0], join)


def test_a_member_that_was_removed_joins_again(cluster: EmbeddedCluster) -> None:
    fill(cluster, "fenced", 2, 2)

    async def lose(access: LogAccess) -> None:
        member = new_member(access, "fenced", "fenced")
        await member.start()
        await until(lambda: len(member.positions) == 2, "both partitions")
        twin = new_member(access, "fenced", "fenced")
        twin._session.member_id = member._session.member_id  # type: ignore[misc]
        twin._session.epoch = member._session.epoch
        changes = member.changes
        await twin.close()
        await member.changed(changes)
        await until(lambda: len(member.positions) == 2, "both partitions once more")
        await member.commit({ids.TopicPartition("fenced", 0): 1})
        await member.close()

    at(cluster.brokers[1], lose)


def test_a_reader_follows_leaders_and_new_partitions(cluster: EmbeddedCluster) -> None:
    fill(cluster, "spread", 4, 40)

    async def read(access: LogAccess) -> None:
        partitions = [ids.TopicPartition("spread", index) for index in range(4)]
        leaders = {access.image.topics["spread"].partitions[each.partition].leader for each in partitions}
        assert leaders == {1, 2}, "the test needs partitions at both nodes"
        reader = PartitionReader(access, Reading())
        reader.assign(dict.fromkeys(partitions[:3], 0))
        values: list[bytes | None] = []

        async def read_all(count: int) -> None:
            async with asyncio.timeout(20):
                while len(values) < count:
                    for found in await reader.read(500):
                        records, next_offset = read_records(found.fetched, found.offset)
                        values.extend(record.value for record in records)
                        reader.moved(found.partition, next_offset)

        await read_all(30)
        assert await reader.read(10) == []
        reader.assign({**reader.positions, partitions[3]: 5})
        await read_all(35)
        assert dict(reader.positions) == dict.fromkeys(partitions, 10)
        waiting = asyncio.create_task(reader.read(30_000, is_interruptible=True))
        await asyncio.sleep(0.05)
        reader.interrupt()
        assert await asyncio.wait_for(waiting, 5) == []
        reader.assign({partitions[0]: 99, partitions[1]: 0})
        with pytest.raises(BrokerError, match="from 0 to 10"):
            await read_all(1_000)
        await reader.close()

    at(cluster.brokers[0], read)


def test_a_member_outlives_its_coordinator(cluster: EmbeddedCluster) -> None:
    stays, goes = cluster.brokers
    stays.create_topic("moving", 2)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

    def both_lead() -> bool:
        # On a busy machine a node is fenced for a moment, and comes back without its leaderships.
        admin.elect_leaders(ElectionType.PREFERRED).result(20)
        partitions = stays.node.metadata.topics["__consumer_offsets"].partitions
        return {each.leader for each in partitions.values()} == {1, 2}

    wait_until(both_lead, "both nodes lead partitions of the offsets topic")

    async def begin(access: LogAccess) -> list[GroupMember]:
        found: list[GroupMember] = []
        for number in range(12):
            member = new_member(access, f"moving-{number}", "moving")
            await member.start()
            found.append(member)
        await until(lambda: all(len(each.positions) == 2 for each in found), "partitions of all groups")
        for each in found:
            await each.commit({ids.TopicPartition("moving", 0): 0})
        assert {each.group._node_id for each in found} == {1, 2}, "the test needs coordinators at both nodes"
        return found

    members = at(stays, begin)
    goes.stop()

    async def go_on(access: LogAccess) -> None:
        for each in members:
            await each.commit({ids.TopicPartition("moving", 0): 0, ids.TopicPartition("moving", 1): 0})
            committed = await GroupAccess(access, each.group.group_id).committed(None)
            assert len(committed) == 2
            await each.close()

    at(stays, go_on)
    goes.start()
