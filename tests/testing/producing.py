"""A client that writes until it is stopped, and the check that what was acknowledged is there."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.waiting import wait_until

DEADLINE_S = 30.0


class Writer:
    """Writes numbers one after the other from a thread. As a context manager it stops at the end."""

    def __init__(self, bootstrap: str, topic: str, partition: int = 0) -> None:
        self._topic, self._partition = topic, partition
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "socket.timeout.ms": 1500,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 50,
                "log_level": 0,
            }
        )
        self._next = 0
        self.acknowledged: list[bytes] = []
        self.failed: list[KafkaError] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        self.wait_for_more()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(DEADLINE_S)
        assert left == 0, f"{left} records were neither acknowledged nor refused"

    def wait_for_more(self, count: int = 20) -> float:
        """Until so many more records were acknowledged; the seconds that took."""
        began_s = time.monotonic()
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, lambda: f"acknowledged writes; failed: {self.failed[-3:]}")
        return time.monotonic() - began_s

    def _write(self) -> None:
        while not self._stopping.wait(0.002):
            value = str(self._next).encode()
            self._producer.produce(self._topic, value, partition=self._partition, on_delivery=self._delivered)
            self._next += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(message.value() or b"")
        else:
            self.failed.append(error)


def read_all(bootstrap: str, topic: str, partition: int = 0) -> list[bytes]:
    """The values of a partition, up to its end."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    values: list[bytes] = []
    try:
        end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S)[1]
        consumer.assign([TopicPartition(topic, partition, 0)])

        def read() -> bool:
            values.extend(m.value() or b"" for m in consumer.consume(1000, 0.2) if m.error() is None)
            return len(values) >= end

        if end:
            wait_until(read, lambda: f"{end} records in {topic}-{partition}, read {len(values)}")
    finally:
        consumer.close()
    return values
