"""librdkafka's transactional producer through confluent-kafka."""

from __future__ import annotations

import time
from typing import Any

import pytest
from benchmarks.broker_process import BrokerProcess
from benchmarks.wire import Connection
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.servers.topics import create_topic, new_name

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
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return values
            else:
                raise KafkaException(error)
        raise TimeoutError(f"no end of {topic} after {len(values)} records")
    finally:
        consumer.close()


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
    deadline = time.monotonic() + 60
    while done < 200:
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{done} of 200")
        batch = [message for message in consumer.consume(20, 1.0) if not message.error()]
        if not batch:
            continue
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
