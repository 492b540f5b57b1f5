"""What a group has read of a topic: committed once, asked for after the fault."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition
from tests.faults.cluster.load import DEADLINE_S, PARTITIONS

GROUP = "readers"


def commit_offsets(bootstrap: str, topic: str) -> int:
    """Reads a little as a group, and remembers how much."""
    settings = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    read = 0
    deadline_s = time.monotonic() + DEADLINE_S
    while read < 10:
        if time.monotonic() >= deadline_s:
            raise TimeoutError(f"{read} records read")
        read += len([message for message in consumer.consume(10, 1.0) if not message.error()])
    committed = consumer.commit(asynchronous=False)
    consumer.close()
    return sum(partition.offset for partition in committed if partition.offset >= 0)


def committed_offsets(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = consumer.committed(asked, timeout=DEADLINE_S)
    consumer.close()
    return sum(partition.offset for partition in found if partition.offset >= 0)
