"""Records in and out of topics, by a client that Spark has nothing to do with."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.waiting import wait_until

READ_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    key: bytes | None = None
    value: bytes | None = None
    partition: int = -1
    offset: int = -1
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = 0


def produce(bootstrap: str, topic: str, records: Iterable[Record], **settings: str) -> None:
    """Writes records and waits until they are acknowledged."""
    failures: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "partitioner": "murmur2", **settings})
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            headers=list(record.headers),
            timestamp=record.timestamp_ms,
            on_delivery=lambda error, _: failures.append(str(error)) if error else None,
        )
        producer.poll(0)
    assert producer.flush(READ_TIMEOUT_S) == 0
    assert not failures, failures[:3]


def read_all(bootstrap: str, topic: str) -> list[Record]:
    """All committed records, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        unread, found = end_offsets(bootstrap, topic), []
        consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])

        def is_at_end() -> bool:
            for message in consumer.consume(10_000, 0.1):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    # Told at the start of the first open transaction too, and again when there is more to read.
                    if message.offset() >= unread.get(message.partition(), 0):
                        unread.pop(message.partition(), None)
                elif error is not None:
                    raise KafkaException(error)
                else:
                    found.append(_record(message))
            return not unread

        wait_until(is_at_end, lambda: f"the end of {topic}, of {set(unread)}: a transaction is open", READ_TIMEOUT_S)
        return sorted(found, key=lambda record: (record.partition, record.offset))
    finally:
        consumer.close()


def end_offsets(bootstrap: str, topic: str) -> dict[int, int]:
    """Behind the last record of every partition, committed or not."""
    settings = {"group.id": f"counter-{uuid.uuid4().hex}", "isolation.level": "read_uncommitted"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    try:
        partitions = consumer.list_topics(topic, READ_TIMEOUT_S).topics[topic].partitions
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), READ_TIMEOUT_S)[1]
            for partition in partitions
        }
    finally:
        consumer.close()


def _record(message: object) -> Record:
    return Record(
        key=message.key(),
        value=message.value(),
        partition=message.partition(),
        offset=message.offset(),
        headers=tuple(message.headers() or ()),
        timestamp_ms=message.timestamp()[1],
    )
