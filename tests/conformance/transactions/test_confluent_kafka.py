"""librdkafka's transactional producer through confluent-kafka."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic, new_name
from tests.servers.wire import Connection
from tests.waiting import wait_until

WAIT_S = 30


def new_producer(broker: BrokerProcess, transactional_id: str, **config: Any) -> Producer:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "log_level": 0, **config}
    )
    producer.init_transactions(WAIT_S)
    return producer


def read_all(broker: BrokerProcess, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Everything up to the end of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []

        def is_at_end() -> bool:
            message = consumer.poll(0.5)
            error = None if message is None else message.error()
            if message is not None and error is None:
                values.append(message.value())
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            return error is not None

        wait_until(is_at_end, lambda: f"the end of {topic}, read {len(values)} records", WAIT_S, interval_s=0)
        return values
    finally:
        consumer.close()


def read_some(consumer: Consumer) -> list[Message]:
    return [message for message in consumer.consume(20, 1.0) if not message.error()]


def test_commits_are_read_and_aborts_are_not(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    producer = new_producer(broker, new_name("txn"))
    expected = []
    for number in range(10):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, index) for index in range(50)]
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush()
        if number % 3 == 1:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
            expected += values
    assert read_all(broker, topic) == expected
    assert len(read_all(broker, topic, "read_uncommitted")) == 500


def test_the_newer_producer_wins(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    name = new_name("txn")
    zombie = new_producer(broker, name)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie", partition=0)
    zombie.flush()
    alive = new_producer(broker, name)
    with pytest.raises(KafkaException) as failure:
        zombie.commit_transaction(WAIT_S)
    assert failure.value.args[0].fatal()
    alive.begin_transaction()
    alive.produce(topic, b"alive", partition=0)
    alive.commit_transaction(WAIT_S)
    assert read_all(broker, topic) == [b"alive"]


def test_consume_transform_produce_with_offsets_in_the_transaction(
    broker: BrokerProcess, connection: Connection
) -> None:
    source, target = create_topic(connection), create_topic(connection)
    group = new_name("group")
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(200):
        plain.produce(source, b"%d" % number, partition=0)
    assert plain.flush(WAIT_S) == 0
    producer = new_producer(broker, new_name("txn"))
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    done, attempts = 0, 0
    consumer = Consumer(settings)
    consumer.subscribe([source])
    while done < 200:
        batch = wait_until(lambda consumer=consumer: read_some(consumer), f"records after the first {done}")
        attempts += 1
        producer.begin_transaction()
        for message in batch:
            producer.produce(target, b"<%s>" % message.value(), partition=0)
        position = TopicPartition(source, 0, batch[-1].offset() + 1)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), WAIT_S)
        if attempts in (1, 4):
            # As after a crash: what was read is read again from the committed offset.
            producer.abort_transaction(WAIT_S)
            consumer.close()
            consumer = Consumer(settings)
            consumer.subscribe([source])
        else:
            producer.commit_transaction(WAIT_S)
            done = position.offset
    [committed] = consumer.committed([TopicPartition(source, 0)], WAIT_S)
    consumer.close()
    assert committed.offset == 200
    assert read_all(broker, target) == [b"<%d>" % number for number in range(200)]
