"""Several real clients in one classic group: everybody gives up what another is given, and nothing is read twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.conformance.groups.member import Groups
from tests.conformance.kafka_python.client import ConsumerRebalanceListener, KafkaConsumer
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import list_offset, produce_values
from tests.servers.wire import Connection
from tests.waiting import wait_until

SETTLE_S = 40
PARTITIONS = 6
TIMEOUTS = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}


@pytest.fixture
def groups(connection: Connection) -> Groups:
    return Groups(connection)


def write(groups: Groups, topic: str) -> None:
    for partition in range(PARTITIONS):
        produce_values(groups.connection, topic, b"a", b"b", b"c", partition=partition)


def written(groups: Groups, topic: str) -> list[tuple[int, int]]:
    ends = [list_offset(groups.connection, topic, partition, -1)[2] for partition in range(PARTITIONS)]
    return [(partition, offset) for partition, end in enumerate(ends) for offset in range(end)]


class Team:
    """Members of librdkafka that one thread polls in turn, so that what each is told comes in order."""

    def __init__(self, broker: BrokerProcess, topic: str, group: str, strategy: str) -> None:
        self._settings = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "partition.assignment.strategy": strategy,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "group.protocol": "classic",
            **TIMEOUTS,
        }
        self._topic = topic
        self.owners: dict[int, str] = {}
        self.read: list[tuple[int, int]] = []
        self._members: dict[str, Consumer] = {}

    @contextmanager
    def member(self, name: str) -> Iterator[None]:
        member = self._members[name] = Consumer(self._settings)

        def take(_member: Consumer, partitions: list[TopicPartition]) -> None:
            for taken in partitions:
                assert self.owners.setdefault(taken.partition, name) == name, f"{taken} has another owner"

        def give_up(_member: Consumer, partitions: list[TopicPartition]) -> None:
            try:
                member.commit(asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._NO_OFFSET:
                    raise
            for given in partitions:
                assert self.owners.pop(given.partition) == name

        member.subscribe([self._topic], on_assign=take, on_revoke=give_up, on_lost=give_up)
        try:
            yield
        finally:
            member.close()
            del self._members[name]

    def poll_until(self, condition: Callable[[], bool], what: str) -> None:
        def poll() -> bool:
            if condition():
                return True
            for member in self._members.values():
                message = member.poll(0.02)
                if message is not None:
                    assert message.error() is None, message.error()
                    self.read.append((message.partition() or 0, message.offset() or 0))
            return False

        wait_until(poll, lambda: f"{what}: {self.owners}", SETTLE_S, interval_s=0)

    def shares(self) -> list[int]:
        return sorted(Counter(self.owners.values()).values())


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_of_librdkafka(broker: BrokerProcess, groups: Groups, strategy: str) -> None:
    topic = groups.topic(PARTITIONS)
    team = Team(broker, topic, groups.group(), strategy)

    def read_all() -> None:
        expected = written(groups, topic)
        team.poll_until(lambda: len(team.read) >= len(expected), "all is read")

    with ExitStack() as stack:
        stack.enter_context(team.member("a"))
        stack.enter_context(team.member("b"))
        team.poll_until(lambda: team.shares() == [3, 3], "two members share")
        write(groups, topic)
        with team.member("c"):
            # What is in flight while they rebalance is read once too.
            team.poll_until(lambda: team.shares() == [2, 2, 2], "three members share")
            read_all()
            write(groups, topic)
        team.poll_until(lambda: team.shares() == [3, 3], "the third has left")
        read_all()
    assert sorted(team.read) == written(groups, topic)
    assert team.owners == {}


class PythonMember:
    """kafka-python's consumer in a thread of its own: it blocks while its group rebalances."""

    def __init__(self, broker: BrokerProcess, topic: str, group: str) -> None:
        self.owned: set[int] = set()
        self.read: list[tuple[int, int]] = []
        self._fault: Exception | None = None
        self._stop = threading.Event()
        self._consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            # A listener cannot commit here: it runs on the thread that would have to send it.
            auto_commit_interval_ms=200,
            **{name.replace(".", "_"): value for name, value in TIMEOUTS.items()},
        )
        member = self

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked: Any) -> None:
                member.owned = member.owned - {partition.partition for partition in revoked}

            def on_partitions_assigned(self, assigned: Any) -> None:
                member.owned = member.owned | {partition.partition for partition in assigned}

        self._consumer.subscribe([topic], listener=Listener())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                for partition, messages in self._consumer.poll(200).items():
                    self.read += [(partition.partition, message.offset) for message in messages]
        except Exception as error:
            self._fault = error
        finally:
            self._consumer.close()

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert self._fault is None, self._fault
        assert not self._thread.is_alive()


def test_members_of_kafka_python(broker: BrokerProcess, groups: Groups) -> None:
    topic, group = groups.topic(PARTITIONS), groups.group()
    everything = set(range(PARTITIONS))
    first = PythonMember(broker, topic, group)
    try:
        wait_until(lambda: first.owned == everything, "one member reads all", SETTLE_S)
        write(groups, topic)
        second = PythonMember(broker, topic, group)
        try:
            wait_until(
                lambda: len(first.owned) == len(second.owned) == 3 and first.owned | second.owned == everything,
                "two members share",
                SETTLE_S,
            )
            write(groups, topic)
            wait_until(
                lambda: len(first.read) + len(second.read) >= len(written(groups, topic)), "all is read", SETTLE_S
            )
        finally:
            second.leave()
        wait_until(lambda: first.owned == everything, "one member reads all again", SETTLE_S)
        write(groups, topic)
        wait_until(lambda: len(first.read) + len(second.read) >= len(written(groups, topic)), "all is read", SETTLE_S)
    finally:
        first.leave()
    assert sorted(first.read + second.read) == written(groups, topic)
    assert groups.fetch(group, topic) == (0, 9)
