"""Writing and reading with confluent-kafka, as a user of an embedded broker would."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from tests.waiting import wait_until

DEADLINE_SECONDS = 60.0


def produce_values(bootstrap_servers: str, topic: str, values: list[bytes]) -> None:
    """Returns when every record is acknowledged by all replicas."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "message.timeout.ms": 50_000})
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

        def read() -> bool:
            for message in consumer.consume(count - len(values), timeout=0.2):
                if message.error():
                    raise KafkaException(message.error())
                value = message.value()
                assert value is not None
                values.append(value)
            return len(values) >= count

        wait_until(read, lambda: f"{count} records in {topic}, read {len(values)}", DEADLINE_SECONDS)
        return values
    finally:
        consumer.close()


def end_offset(bootstrap_servers: str, topic: str, partition: int = 0) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "none"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_SECONDS)[1])
    finally:
        consumer.close()


def partition_counts(bootstrap_servers: str) -> dict[str, int]:
    """Every topic there is, and how many partitions it has."""
    listed = AdminClient({"bootstrap.servers": bootstrap_servers}).list_topics(timeout=DEADLINE_SECONDS)
    return {name: len(topic.partitions) for name, topic in listed.topics.items()}


def topic_config(bootstrap_servers: str, topic: str, name: str) -> str:
    # The client must outlive its answer: a future of a client that is gone fails.
    client = AdminClient({"bootstrap.servers": bootstrap_servers})
    [answer] = client.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return str(answer.result(DEADLINE_SECONDS)[name].value)
