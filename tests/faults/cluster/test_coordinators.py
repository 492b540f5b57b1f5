"""Groups and transactions move with the leaders of their internal partitions when the node that held them dies or
hangs."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from tests.faults.cluster.load import DEADLINE_S, Load, create_topic, is_whole, wait_for, without
from tests.waiting import wait_until

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster
from tidelog.cli.wire import BrokerConnection
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest

GROUP, TRANSACTION = 0, 1


def coordinator_of(bootstrap: str, key: str, kind: int) -> int:
    """The node that looks after the key; waits until there is one."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])

    def find() -> Any:
        with BrokerConnection(host, int(port)) as connection:
            [found] = connection.call(request, 4).coordinators
        return found if found.error_code == 0 else None

    found = wait_until(find, f"a coordinator of {key}", DEADLINE_S, interval_s=0.1)
    return int(found.node_id)


SIGNALS = pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
PATIENCE_MS = 3000
"""How long a client waits for the answer of a node that hangs."""


def revive(cluster: LocalCluster, victim: int, number: int) -> None:
    if number == signal.SIGKILL:
        cluster.start_again(victim)
    else:
        cluster.send_signal(victim, signal.SIGCONT)


@SIGNALS
def test_a_group_goes_on_when_its_coordinator_is_gone(cluster: LocalCluster, number: int) -> None:
    topic = create_topic(cluster.bootstrap)
    wait_for(cluster.bootstrap, is_whole, "a whole cluster")
    load = Load(cluster.bootstrap, topic)
    load.start()
    group = f"readers-{topic}"
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
            "socket.timeout.ms": PATIENCE_MS,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    seen: dict[int, int] = {}

    def read_until(is_enough: Callable[[], bool]) -> None:
        def read() -> bool:
            for message in consumer.consume(200, 0.5):
                if not message.error():
                    number = int(message.value())
                    seen[number] = seen.get(number, 0) + 1
            # There may be no coordinator at the moment, or nothing new to commit.
            with suppress(KafkaException):
                consumer.commit(asynchronous=False)
            return is_enough()

        wait_until(read, lambda: f"enough records; read {len(seen)}", DEADLINE_S, interval_s=0)

    read_until(lambda: len(seen) >= 100)
    victim = coordinator_of(cluster.bootstrap, group, GROUP)
    cluster.send_signal(victim, number)
    before = len(seen)
    read_until(lambda: len(seen) >= before + 200)
    revive(cluster, victim, number)
    load.stop()
    acknowledged = set().union(*load.acknowledged.values())
    read_until(lambda: acknowledged <= set(seen))
    consumer.close()
    wait_for(without(cluster, victim), is_whole, "a whole cluster in the end")


@SIGNALS
def test_transactions_go_on_when_their_coordinator_is_gone(cluster: LocalCluster, number: int) -> None:
    topic = create_topic(cluster.bootstrap)
    wait_for(cluster.bootstrap, is_whole, "a whole cluster")
    name = f"writer-{topic}"
    settings = {"transactional.id": name, "socket.timeout.ms": PATIENCE_MS, "log_level": 0}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    producer.init_transactions(DEADLINE_S)
    committed: list[int] = []

    def write(value: int, *, commits: bool) -> None:
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, str(value).encode(), partition=partition)
        _again(producer.commit_transaction if commits else producer.abort_transaction)
        if commits:
            committed.append(value)

    for value in range(10):
        write(value, commits=value % 3 != 0)
    victim = coordinator_of(cluster.bootstrap, name, TRANSACTION)
    producer.begin_transaction()
    for partition in range(3):
        producer.produce(topic, b"10", partition=partition)
    producer.flush(DEADLINE_S)
    cluster.send_signal(victim, number)
    _again(producer.commit_transaction)
    committed.append(10)
    for value in range(11, 20):
        write(value, commits=value % 3 != 0)
    revive(cluster, victim, number)
    state: ClusterState = wait_for(without(cluster, victim), is_whole, "a whole cluster in the end")
    assert state.leaderless == []
    assert sorted(_read_committed(cluster.bootstrap, topic, 3 * len(committed))) == sorted(committed * 3)


def _again(end: object) -> None:
    """Until it is done: what can be tried again is not an end of the transaction."""

    def is_done() -> bool:
        try:
            end(10.0)  # type: ignore[operator]
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            return False
        return True

    wait_until(is_done, "the end of a transaction", DEADLINE_S)


def _read_committed(bootstrap: str, topic: str, count: int) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"check-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    found: list[int] = []

    def read() -> bool:
        found.extend(int(message.value()) for message in consumer.consume(100, 0.5) if not message.error())
        return len(found) >= count

    try:
        wait_until(read, lambda: f"{count} records in {topic}, read {len(found)}", DEADLINE_S)
        # What must not be there would come now.
        found += [int(message.value()) for message in consumer.consume(100, 1.0) if not message.error()]
    finally:
        consumer.close()
    return found
