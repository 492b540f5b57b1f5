"""Real clients in consumer groups: librdkafka's consumer protocol, alone and with classic members beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.conformance.groups.member import Groups
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import new_name
from tests.servers.wire import Connection
from tests.waiting import eventually, wait_until

SETTLE_S = 40
RECORDS = 60


@pytest.fixture
def groups(connection: Connection) -> Groups:
    return Groups(connection)


@contextmanager
def consumer(broker: BrokerProcess, group: str, *topics: str, **config: Any) -> Iterator[Consumer]:
    opened = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
    )
    try:
        opened.subscribe(list(topics))
        yield opened
    finally:
        opened.close()


def poll_until(condition: Callable[[], bool], what: str, *consumers: Consumer) -> list[Message]:
    """Polls all consumers until it holds; returns what they read."""
    messages = []

    def poll() -> bool:
        if condition():
            return True
        for member in consumers:
            message = member.poll(0.05)
            if message is not None:
                error = message.error()
                assert error is None or error.code() == KafkaError._PARTITION_EOF, error
                messages.append(message)
        return False

    wait_until(poll, what, SETTLE_S, interval_s=0)
    return messages


def owned(member: Consumer) -> set[tuple[str, int]]:
    return {(p.topic, p.partition) for p in member.assignment()}


def fill(broker: BrokerProcess, topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, value=b"%d" % number, partition=number % partitions)
    assert producer.flush(30) == 0


def test_members_come_and_go_and_nothing_is_read_twice(broker: BrokerProcess, groups: Groups) -> None:
    topic, group = groups.topic(6), groups.group()
    fill(broker, topic, 6)
    everything = {(topic, partition) for partition in range(6)}
    with ExitStack() as stack:
        first = stack.enter_context(consumer(broker, group, topic))
        read = poll_until(lambda: sum(p.offset for p in first.position(first.assignment())) == RECORDS, "all", first)
        assert len(read) == RECORDS
        first.commit(asynchronous=False)
        second = stack.enter_context(consumer(broker, group, topic))
        both = poll_until(lambda: len(owned(first)) == len(owned(second)) == 3, "two members share", first, second)
        assert owned(first) | owned(second) == everything
        with consumer(broker, group, topic) as third:
            trio = (first, second, third)
            poll_until(lambda: all(len(owned(m)) == 2 for m in trio), "three members share", *trio)
            assert set.union(*map(owned, trio)) == everything
        poll_until(lambda: len(owned(first)) == len(owned(second)) == 3, "the third has left", first, second)
        assert both == [], "what was committed is not read again"
        committed = first.committed([TopicPartition(topic, partition) for partition in range(6)])
        assert [found.offset for found in committed] == [10] * 6


def test_a_static_member_restarts(broker: BrokerProcess, groups: Groups) -> None:
    topic, group = groups.topic(4), groups.group()
    with consumer(broker, group, topic, group_instance_id="one") as first:
        with consumer(broker, group, topic, group_instance_id="two") as second:
            poll_until(lambda: len(owned(first)) == len(owned(second)) == 2, "two members share", first, second)
            before = owned(second)
            epoch = groups.describe(group).group_epoch
        with consumer(broker, group, topic, group_instance_id="two") as second:
            poll_until(lambda: len(owned(second)) == 2, "it is back", first, second)
            assert owned(second) == before
            assert groups.describe(group).group_epoch == epoch, "nobody else noticed"


def test_a_pattern(broker: BrokerProcess, groups: Groups) -> None:
    prefix = new_name("regex")
    first = groups.topic(2, f"{prefix}-a")
    with consumer(broker, groups.group(), f"^{prefix}-.*") as member:
        poll_until(lambda: {name for name, _ in owned(member)} == {first}, "what matches is read", member)
        second = groups.topic(1, f"{prefix}-b")
        poll_until(lambda: {name for name, _ in owned(member)} == {first, second}, "what is new as well", member)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_live_upgrade_and_downgrade_of_librdkafka(broker: BrokerProcess, groups: Groups, strategy: str) -> None:
    """Classic, both, consumer, both, classic: one member at a time, as in a rolling restart."""
    topic, group = groups.topic(4), groups.group()
    everything = {(topic, partition) for partition in range(4)}
    classic: dict[str, Any] = {
        "group_protocol": "classic",
        "partition_assignment_strategy": strategy,
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 500,
    }
    with ExitStack() as stack:
        old = stack.enter_context(consumer(broker, group, topic, **classic))
        poll_until(lambda: owned(old) == everything, "the classic member reads all", old)
        with consumer(broker, group, topic) as new:
            poll_until(lambda: len(owned(old)) == len(owned(new)) == 2, "both protocols share", old, new)
            assert owned(old) | owned(new) == everything
            assert groups.listed(group).group_type == "consumer"
        poll_until(lambda: owned(old) == everything, "the classic member reads all again", old)
        assert groups.listed(group).group_type == "classic"


def test_aiokafka_beside_the_consumer_protocol(broker: BrokerProcess, groups: Groups) -> None:
    from aiokafka import AIOKafkaConsumer

    topic, group = groups.topic(4), groups.group()

    async def story() -> None:
        classic = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            heartbeat_interval_ms=500,
            session_timeout_ms=10_000,
        )
        await classic.start()
        try:
            await eventually(lambda: len(classic.assignment()) == 4, "aiokafka reads all")
            with consumer(broker, group, topic) as new:
                await eventually(
                    lambda: new.poll(0) is None and len(new.assignment()) == 2 and len(classic.assignment()) == 2,
                    "both protocols share",
                )
            await eventually(lambda: len(classic.assignment()) == 4, "aiokafka reads all again")
        finally:
            await classic.stop()

    asyncio.run(story())
