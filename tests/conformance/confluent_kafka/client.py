"""librdkafka through confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from tests.conformance.sample import Sample, from_bytes
from tests.waiting import wait_until


def produce(bootstrap: str, topic: str, records: Iterable[Sample], codec: str = "none", **config: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20, **config})
    errors: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            errors.append(error)

    for record in records:
        producer.produce(
            topic,
            key=record.key_bytes,
            value=record.value_bytes,
            headers=record.header_list,
            on_delivery=delivered,
        )
    assert producer.flush(30) == 0
    assert errors == []


def read(
    bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0, **config: Any
) -> list[Message]:
    """Messages of one partition from an offset on; fails when they do not come in time."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "check.crcs": True,
            **config,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        messages: list[Message] = []

        def read() -> bool:
            for message in consumer.consume(num_messages=count - len(messages), timeout=0.5):
                assert message.error() is None, message.error()
                messages.append(message)
            return len(messages) >= count

        if count:
            wait_until(read, lambda: f"{count} messages, read {len(messages)}")
        return messages
    finally:
        consumer.close()


def consume(bootstrap: str, topic: str, count: int) -> list[Sample]:
    return [from_bytes(message.key(), message.value(), message.headers()) for message in read(bootstrap, topic, count)]
