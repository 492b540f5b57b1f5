"""An idempotent producer with acks=all that writes on while nodes fail, and the count of what came of it."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import defaultdict
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.waiting import wait_until

from tidelog.cli.cluster_state import ClusterState, read_state
from tidelog.cli.errors import CommandError
from tidelog.cli.local_cluster import LocalCluster
from tidelog.cli.wire import BrokerConnection
from tidelog.protocol.generated.elect_leaders import ElectLeadersRequest

PARTITIONS = 3
PAUSE_S = 0.004
DEADLINE_S = 90.0


def create_topic(bootstrap: str, **configs: str) -> str:
    """Underscores in the names of settings stand for dots."""
    name = f"load-{os.urandom(4).hex()}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = NewTopic(name, PARTITIONS, 3, config={key.replace("_", "."): value for key, value in configs.items()})
    admin.create_topics([topic], operation_timeout=30, request_timeout=DEADLINE_S)[name].result(DEADLINE_S)
    return name


def without(cluster: LocalCluster, node_id: int) -> str:
    """The addresses of the other nodes: one that hung still shows the cluster as it knew it, until it hears more."""
    addresses = zip(cluster.pids, cluster.bootstrap.split(","), strict=True)
    return ",".join(address for other, address in addresses if other != node_id)


def cluster_state(bootstrap: str) -> ClusterState | None:
    """As any node that answers knows it; None when none does."""
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            with BrokerConnection(host, int(port)) as connection:
                return read_state(connection)
        except CommandError:
            continue
    return None


def wait_for(bootstrap: str, condition: Any, what: str) -> ClusterState:
    def read_state() -> ClusterState | None:
        state = cluster_state(bootstrap)
        return state if state is not None and condition(state) else None

    state = wait_until(read_state, what, DEADLINE_S, interval_s=0.05)
    assert state is not None
    return state


def is_whole(state: ClusterState) -> bool:
    """Every node alive, every replica in sync."""
    return len(state.live_racks()) == 3 and not state.under_replicated and not state.leaderless and bool(state.quorum)


def elect_leaders(bootstrap: str, request: ElectLeadersRequest) -> None:
    """Asks for an election. The state tells whether there was one: while the controller moves there is none."""
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    with contextlib.suppress(CommandError), BrokerConnection(host, int(port)) as connection:
        connection.call(request, 2)


def spread_leaders(bootstrap: str, topic: str) -> ClusterState:
    """Leadership of the topic back to its preferred replicas, one on every node."""

    def is_spread(state: ClusterState) -> bool:
        leaders = {place.leader for partition, place in state.partitions.items() if partition.topic == topic}
        if is_whole(state) and len(leaders) < PARTITIONS:
            elect_leaders(bootstrap, ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=5000))
        return is_whole(state) and len(leaders) == PARTITIONS

    return wait_for(bootstrap, is_spread, "a leader on every node")


class Load:
    """Writes a number after the other, each to the next partition; knows which were acknowledged, and when."""

    def __init__(self, bootstrap: str, topic: str, settings: dict[str, str] | None = None) -> None:
        """`settings`: of the producer, beside those below."""
        self.topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 50,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
                **(settings or {}),
            }
        )
        self.acknowledged: dict[int, set[int]] = defaultdict(set)
        self._times_s: dict[int, list[tuple[float, float]]] = defaultdict(list)
        """When each write was asked for, and when it was acknowledged."""
        self.failed: list[str] = []
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over:
            partition = number % PARTITIONS
            try:
                self._producer.produce(
                    self.topic,
                    str(number).encode(),
                    partition=partition,
                    on_delivery=self._on_delivery(number, partition),
                )
                number += 1
            except BufferError:
                pass
            self._producer.poll(PAUSE_S)

    def _on_delivery(self, number: int, partition: int) -> Any:
        asked_s = time.monotonic()

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.failed.append(str(error))
                return
            self.acknowledged[partition].add(number)
            self._times_s[partition].append((asked_s, time.monotonic()))

        return delivered

    def stop(self) -> None:
        self._is_over = True
        self._thread.join()
        assert self._producer.flush(DEADLINE_S) == 0

    def wait_for_writes(self, partitions: list[int], after_s: float) -> float:
        """Seconds from `after_s` until a write asked for since then was acknowledged in every one of the partitions."""
        found: dict[int, float] = {}

        def are_written() -> bool:
            for partition in partitions:
                times = self._times_s[partition]
                if partition not in found and times and times[-1][0] > after_s:
                    found[partition] = next(done_s for asked_s, done_s in times if asked_s > after_s)
            return len(found) >= len(partitions)

        wait_until(are_written, lambda: f"writes in {set(partitions) - set(found)}", DEADLINE_S)
        return max(found.values()) - after_s

    def check(self, bootstrap: str) -> None:
        """Nothing acknowledged is lost, nothing is there twice, and everything in the order it was written."""
        assert self.failed == []
        for partition in range(PARTITIONS):
            numbers = read_numbers(bootstrap, self.topic, partition)
            assert len(numbers) == len(set(numbers)), "written twice"
            assert self.acknowledged[partition] <= set(numbers), "acknowledged and lost"
            assert numbers == sorted(numbers), "out of order"


def read_numbers(bootstrap: str, topic: str, partition: int) -> list[int]:
    settings = {"group.id": "check", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    try:
        where = TopicPartition(topic, partition, 0)
        end = end_offset(consumer, where)
        consumer.assign([where])
        numbers: list[int] = []

        def read() -> bool:
            numbers.extend(int(message.value()) for message in consumer.consume(1000, 0.5) if not message.error())
            return len(numbers) >= end

        if end:
            wait_until(read, lambda: f"{end} records in {topic}-{partition}, read {len(numbers)}", DEADLINE_S)
        return numbers
    finally:
        consumer.close()


def end_offset(consumer: Consumer, where: TopicPartition) -> int:
    """Repeated while the leader moves, when the client has an error and the cluster has none."""

    def find() -> tuple[int, int] | None:
        try:
            return consumer.get_watermark_offsets(where, timeout=10)
        except KafkaException:
            return None

    offsets = wait_until(find, f"the end offset of {where.topic}-{where.partition}", DEADLINE_S)
    assert offsets is not None
    return int(offsets[1])
