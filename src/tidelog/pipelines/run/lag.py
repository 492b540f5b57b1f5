"""How far a query is behind its topics, as the broker tells: records not read yet, and the age of the oldest."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.pipelines.run.progress import QueryStatus
from tidelog.pipelines.topics.client_dialects import librdkafka_settings

if TYPE_CHECKING:
    from confluent_kafka import Consumer

MEASURE_SECONDS = 2.0
ANSWER_SECONDS_MAX = 2.0
PARTITIONS_SAMPLED_MAX = 64
"""The age is taken from so many partitions at most, the ones farthest behind first."""

Positions = Mapping[str, Mapping[int, int]]


class Lag(NamedTuple):
    offsets: int
    age_ms: int


class LagProbe:
    """Asks a broker; every call may raise KafkaException when that is away."""

    def __init__(self, bootstrap: str, client: Mapping[str, str]) -> None:
        from confluent_kafka import Consumer

        settings: dict[str, Any] = {
            **librdkafka_settings(client),
            "bootstrap.servers": bootstrap,
            "group.id": "tidelog-pipeline-lag",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "queued.min.messages": 1,
            "fetch.message.max.bytes": 1024,
            "log_level": 0,
            "error_cb": lambda _error: None,
        }
        self._consumer: Consumer = Consumer(settings)

    def measure(self, positions: Positions) -> Lag:
        from confluent_kafka import TopicPartition

        behind = []
        for topic, partitions in positions.items():
            for partition, position in partitions.items():
                asked = TopicPartition(topic, partition)
                _, end = self._consumer.get_watermark_offsets(asked, timeout=ANSWER_SECONDS_MAX)
                if end > position:
                    behind.append((end - position, TopicPartition(topic, partition, position)))
        behind.sort(key=lambda pair: -pair[0])
        total = sum(distance for distance, _ in behind)
        oldest_ms = self._oldest_ms([partition for _, partition in behind[:PARTITIONS_SAMPLED_MAX]])
        age_ms = max(0, int(time.time() * 1000) - oldest_ms) if oldest_ms else 0
        return Lag(total, age_ms)

    def _oldest_ms(self, partitions: Sequence[Any]) -> int:
        """The smallest timestamp of the next record of each partition; 0 when none came in time."""
        if not partitions:
            return 0
        self._consumer.assign(list(partitions))
        wanted = {(partition.topic, partition.partition) for partition in partitions}
        found: list[int] = []
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while wanted and time.monotonic() < deadline:
            for message in self._consumer.consume(len(wanted), timeout=0.2):
                if message.error() is None and (message.topic(), message.partition()) in wanted:
                    wanted.discard((message.topic(), message.partition()))
                    found.append(message.timestamp()[1])
        self._consumer.unassign()
        return min(found, default=0)

    def close(self) -> None:
        self._consumer.close()


class LagWatcher:
    """Keeps the lag of all queries fresh, in a thread of its own: a broker that is away must not hold anything up."""

    def __init__(self, bootstrap: str, client: Mapping[str, str], statuses: Sequence[QueryStatus]) -> None:
        self._bootstrap = bootstrap
        self._client = client
        self._statuses = statuses
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lag", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(timeout=3 * ANSWER_SECONDS_MAX)

    def _watch(self) -> None:
        probe = LagProbe(self._bootstrap, self._client)
        ended = False
        while not ended:
            # The last look is the one after the end.
            ended = self._ended.wait(MEASURE_SECONDS)
            for status in self._statuses:
                # Whatever keeps the broker from answering, the query itself reports it; the figure stays as it was.
                with contextlib.suppress(Exception):
                    positions = {topic: dict(partitions) for topic, partitions in status.positions.items()}
                    if positions:
                        status.lag_offsets, status.lag_ms = probe.measure(positions)
        probe.close()
