"""What a group has read of a topic: committed once, asked for after the fault."""

from __future__ import annotations

from confluent_kafka import Consumer, Message, TopicPartition
from tests.faults.cluster.load import DEADLINE_S, PARTITIONS
from tests.waiting import wait_until

GROUP = "readers"


def commit_offsets(bootstrap: str, topic: str) -> int:
    """Reads a little as a group, and remembers how much."""
    settings = {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    read: list[Message] = []

    def read_some() -> bool:
        read.extend(message for message in consumer.consume(10, 1.0) if not message.error())
        return len(read) >= 10

    wait_until(read_some, lambda: f"10 records, read {len(read)}", DEADLINE_S)
    committed = consumer.commit(asynchronous=False)
    consumer.close()
    return sum(partition.offset for partition in committed if partition.offset >= 0)


def committed_offsets(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = consumer.committed(asked, timeout=DEADLINE_S)
    consumer.close()
    return sum(partition.offset for partition in found if partition.offset >= 0)
