"""Writing and reading with confluent-kafka, as a user of an embedded broker would."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

DEADLINE_SECONDS = 20.0


def produce_values(bootstrap_servers: str, topic: str, values: list[bytes]) -> None:
    """Returns when every record is acknowledged by all replicas."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "message.timeout.ms": 10_000})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert failures == []


def consume_values(bootstrap_servers: str, topic: str, count: int, partition: int = 0) -> list[bytes]:
    """The first `count` values of a partition, read without a group."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(values) < count:
            assert time.monotonic() < deadline, f"only {len(values)} of {count} records came"
            for message in consumer.consume(count - len(values), timeout=0.2):
                if message.error():
                    raise KafkaException(message.error())
                value = message.value()
                assert value is not None
                values.append(value)
        return values
    finally:
        consumer.close()
