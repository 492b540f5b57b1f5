"""What a test of pipeline files works with: topics of its own, records in, records out, runs in this process."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.waiting import wait_until

from tidelog.pipelines.run.progress import QueryStatus
from tidelog.pipelines.run.runner import PipelineRun
from tidelog.pipelines.spec.read import read_pipeline
from tidelog.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS_MAX = 280.0
"""For a whole run: a cold JVM on a busy machine takes its time."""


class Bench:
    def __init__(self, spark: SparkSession, node: Broker, directory: Path) -> None:
        self.spark = spark
        self.node = node
        self.directory = directory
        self.lines: list[str] = []
        self.rows: list[Sequence[Any]] = []

    @property
    def bootstrap(self) -> str:
        return self.node.bootstrap_servers

    def topic(self, name: str = "topic", partitions: int = 2) -> str:
        """A new topic whose name begins with `name`."""
        full = f"{name}-{uuid.uuid4().hex[:8]}"
        self.node.create_topic(full, partitions=partitions)
        return full

    def put(self, topic: str, *values: Any, partition: int | None = None) -> None:
        """Writes values (bytes, or anything as JSON), keyed by their `id` when they have one."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for value in values:
            key = str(value["id"]).encode() if isinstance(value, dict) and "id" in value else None
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            if partition is None:
                producer.produce(topic, data, key)
            else:
                producer.produce(topic, data, key, partition)
        assert producer.flush(30) == 0

    def records(self, topic: str, partitions: int = 1) -> list[Any]:
        """The committed records of a topic, as messages."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        found: list[Any] = []
        ended = 0

        def is_at_end() -> bool:
            nonlocal ended
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended += 1
            return ended >= partitions

        try:
            wait_until(is_at_end, f"the end of {topic}")
        finally:
            consumer.close()
        return found

    def values(self, topic: str, partitions: int = 1) -> list[Any]:
        """The committed values of a topic, from JSON."""
        return [json.loads(message.value()) for message in self.records(topic, partitions)]

    def make_run(self, path: Path) -> PipelineRun:
        return PipelineRun(
            read_pipeline(path),
            bootstrap=self.bootstrap,
            report=self.lines.append,
            show_rows=lambda _sink, _batch, _columns, rows: self.rows.extend(rows),
            spark=self.spark,
        )

    def run(self, path: Path) -> list[QueryStatus]:
        """Runs a pipeline to its end."""
        run = self.make_run(path)
        deadline = time.monotonic() + SECONDS_MAX

        def tick() -> None:
            if time.monotonic() > deadline:
                run.stop.set()

        run.run(tick)
        return run.statuses

    def run_until(
        self, path: Path, *steps: tuple[Callable[[list[QueryStatus]], bool], Callable[[], None]]
    ) -> PipelineRun:
        """Runs a pipeline; a step waits for its condition, then does something; after the last the run is stopped."""
        run = self.make_run(path)
        left = list(steps)
        deadline = time.monotonic() + SECONDS_MAX
        failed: list[str] = []

        def tick() -> None:
            while left and left[0][0](run.statuses):
                # A thread of its own: what is done may take longer than queries should be left alone.
                worker = threading.Thread(target=left.pop(0)[1])
                worker.start()
                worker.join()
            if not left:
                run.stop.set()
            elif time.monotonic() > deadline:
                failed.append(f"{len(left)} steps were not reached: {run.statuses}, {self.lines}")
                run.stop.set()

        run.run(tick)
        assert not failed, failed[0]
        assert not left, f"the run ended before {len(left)} steps: {run.statuses}, {self.lines}"
        return run


def nothing() -> None:
    """The last step of a run that only has to get somewhere."""
