"""Records through librdkafka: what is written comes back, with its timestamps, in its order, under every acks."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, Producer, TopicPartition
from confluent_kafka import Consumer as ConfluentConsumer
from tests.conformance.confluent_kafka.client import consume, produce, read
from tests.conformance.sample import samples
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic, list_offset, new_name
from tests.servers.wire import Connection


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_come_back_whatever_acks_was(broker: BrokerProcess, connection: Connection, acks: str) -> None:
    topic = create_topic(connection)
    records = samples(f"acks {acks}")
    produce(broker.bootstrap, topic, records, acks=acks)
    assert consume(broker.bootstrap, topic, len(records)) == records


def test_an_idempotent_producer_keeps_the_order(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "batch.num.messages": 50, "linger.ms": 0}
    )
    for number in range(2000):
        producer.produce(topic, str(number).encode())
        producer.poll(0)
    assert producer.flush(30) == 0
    messages = read(broker.bootstrap, topic, 2000)
    assert [int(message.value()) for message in messages] == list(range(2000))
    assert [message.offset() for message in messages] == list(range(2000))


def test_delivery_reports_carry_offsets_and_partitions(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection, partitions=3)
    reports = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition in (0, 1, 2):
        for _ in range(5):
            producer.produce(topic, b"x", partition=partition, on_delivery=lambda error, m: reports.append((error, m)))
    assert producer.flush(30) == 0
    assert all(error is None for error, _ in reports)
    for partition in (0, 1, 2):
        assert sorted(m.offset() for _, m in reports if m.partition() == partition) == [0, 1, 2, 3, 4]


def test_create_time_is_the_producers(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    base_ms = int(time.time() * 1000) - 3_600_000
    for delta in (0, 500, 250):
        producer.produce(topic, b"x", timestamp=base_ms + delta)
    assert producer.flush(30) == 0
    assert [message.timestamp() for message in read(broker.bootstrap, topic, 3)] == [
        (TIMESTAMP_CREATE_TIME, base_ms + delta) for delta in (0, 500, 250)
    ]


def test_log_append_time_is_the_brokers(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection, configs={"message.timestamp.type": "LogAppendTime"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
    before_ms = int(time.time() * 1000)
    for _ in range(3):
        producer.produce(topic, b"x", timestamp=1_000_000)
    assert producer.flush(30) == 0
    after_ms = int(time.time() * 1000)
    for message in read(broker.bootstrap, topic, 3):
        kind, timestamp = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before_ms <= timestamp <= after_ms


def test_a_message_of_the_largest_size_passes_and_a_larger_one_does_not(
    broker: BrokerProcess, connection: Connection
) -> None:
    limit = 200_000
    topic = create_topic(connection, configs={"max.message.bytes": str(limit)})
    errors = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 10_000_000, "linger.ms": 0})
    # A batch of one record is 61 bytes of header, and 11 bytes around a value of this size.
    fits = b"v" * (limit - 61 - 11)
    for value in (fits, fits + b"v"):
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
    assert errors[0] is None
    assert errors[1].code() == KafkaError.MSG_SIZE_TOO_LARGE
    [message] = read(broker.bootstrap, topic, 1)
    assert message.value() == fits
    assert list_offset(connection, topic, 0, -1)[2] == 1


def test_a_message_near_the_stock_limit_of_one_mebibyte(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    value = bytes(range(256)) * 4000
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 2_000_000})
    producer.produce(topic, value)
    assert producer.flush(30) == 0
    assert read(broker.bootstrap, topic, 1)[0].value() == value


def test_a_small_fetch_size_still_makes_progress(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for number in range(20):
        producer.produce(topic, bytes([number]) * 5000)
        producer.flush(30)
    messages = read(broker.bootstrap, topic, 20, **{"fetch.message.max.bytes": 1000})
    assert [message.value()[0] for message in messages] == list(range(20))


def test_reading_may_start_anywhere_in_a_batch(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 100, "compression.type": "zstd"})
    for number in range(100):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    messages = read(broker.bootstrap, topic, 40, offset=60)
    assert [message.offset() for message in messages] == list(range(60, 100))


def test_the_broker_compresses_when_the_topic_says_so(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection, configs={"compression.type": "gzip"})
    records = samples("compressed by the broker")
    produce(broker.bootstrap, topic, records, "none")
    produce(broker.bootstrap, topic, records, "zstd")
    assert consume(broker.bootstrap, topic, 2 * len(records)) == records + records


def test_a_topic_is_created_by_the_first_record(broker: BrokerProcess) -> None:
    topic = new_name("automatic")
    records = samples("automatic")
    produce(broker.bootstrap, topic, records)
    assert consume(broker.bootstrap, topic, len(records)) == records


def test_watermarks_and_offsets_for_times(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    base_ms = 1_600_000_000_000
    for number in range(10):
        producer.produce(topic, b"x", timestamp=base_ms + number * 1000)
        producer.flush(30)
    consumer = ConfluentConsumer({"bootstrap.servers": broker.bootstrap, "group.id": "times"})
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 10)
        for wanted_ms, offset in ((0, 0), (base_ms + 4500, 5), (base_ms + 5000, 5), (base_ms + 10_000, -1)):
            [found] = consumer.offsets_for_times([TopicPartition(topic, 0, wanted_ms)], timeout=10)
            assert found.offset == offset, wanted_ms
    finally:
        consumer.close()


def test_a_waiting_reader_gets_a_record_at_once(broker: BrokerProcess, connection: Connection) -> None:
    """A fetch that waits is answered by the append, not by its deadline."""
    topic = create_topic(connection)
    consumer = ConfluentConsumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "waits", "fetch.wait.max.ms": 50_000}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(1.0) is None
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        producer.produce(topic, b"now")
        assert producer.flush(30) == 0
        started = time.monotonic()
        message = consumer.poll(40)
        assert message is not None
        assert message.value() == b"now"
        assert time.monotonic() - started < 30
    finally:
        consumer.close()


def test_an_offset_out_of_range_is_said_so(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    produce(broker.bootstrap, topic, samples("range"))
    consumer = ConfluentConsumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "range", "auto.offset.reset": "error"}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 1_000_000)])
        message = consumer.poll(20)
        assert message is not None
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    finally:
        consumer.close()
