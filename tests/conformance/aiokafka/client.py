"""aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.conformance.sample import Sample, from_bytes


async def send(bootstrap: str, topic: str, records: Iterable[Sample], codec: str = "none", **config: Any) -> list[Any]:
    """Returns the metadata of every record."""
    compression = None if codec == "none" else codec
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20, **config)
    await producer.start()
    try:
        futures = [
            await producer.send(topic, key=record.key_bytes, value=record.value_bytes, headers=record.header_list)
            for record in records
        ]
        return await asyncio.wait_for(asyncio.gather(*futures), 30)
    finally:
        await producer.stop()


def produce(bootstrap: str, topic: str, records: Iterable[Sample], codec: str = "none", **config: Any) -> None:
    asyncio.run(send(bootstrap, topic, records, codec, **config))


async def receive(bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    await consumer.start()
    try:
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.seek(where, offset)
        return [await asyncio.wait_for(consumer.getone(), 30) for _ in range(count)]
    finally:
        await consumer.stop()


def consume(bootstrap: str, topic: str, count: int) -> list[Sample]:
    messages = asyncio.run(receive(bootstrap, topic, count))
    return [from_bytes(message.key, message.value, message.headers) for message in messages]
