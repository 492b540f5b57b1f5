"""kafka-python. Other modules take its names from here, because importing it warns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from tests.conformance.sample import Sample, from_bytes

with warnings.catch_warnings():
    # It loads its schemas with a function that Python 3.11 deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka import errors as kafka_errors
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

__all__ = [
    "ConfigResource",
    "ConfigResourceType",
    "ConsumerRebalanceListener",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "NewPartitions",
    "NewTopic",
    "TopicPartition",
    "consume",
    "kafka_errors",
    "produce",
    "read",
]


def produce(bootstrap: str, topic: str, records: Iterable[Sample], codec: str = "none", **config: Any) -> None:
    compression = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20, **config)
    try:
        futures = [
            producer.send(topic, key=record.key_bytes, value=record.value_bytes, headers=record.header_list)
            for record in records
        ]
        producer.flush(30)
        for future in futures:
            future.get(30)
    finally:
        producer.close(10)


def read(bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0, **config: Any) -> list[Any]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, consumer_timeout_ms=20_000, **config
    )
    try:
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.seek(where, offset)
        messages: list[Any] = []
        for message in consumer:
            messages.append(message)
            if len(messages) == count:
                return messages
        raise TimeoutError(f"{len(messages)} of {count} messages")
    finally:
        consumer.close()


def consume(bootstrap: str, topic: str, count: int) -> list[Sample]:
    return [from_bytes(message.key, message.value, message.headers) for message in read(bootstrap, topic, count)]
