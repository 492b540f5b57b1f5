"""kafka-python: records, offsets and administration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.conformance.kafka_python.client import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewPartitions,
    NewTopic,
    TopicPartition,
    consume,
    kafka_errors,
    produce,
    read,
)
from tests.conformance.sample import samples
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic, list_offset, new_name
from tests.servers.wire import Connection
from tests.waiting import wait_until


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_come_back_whatever_acks_was(broker: BrokerProcess, connection: Connection, acks: int | str) -> None:
    topic = create_topic(connection)
    records = samples(f"acks {acks}")
    produce(broker.bootstrap, topic, records, acks=acks, enable_idempotence=False)
    wait_until(lambda: list_offset(connection, topic, 0, -1)[2] == len(records), "all records are in the log")
    assert consume(broker.bootstrap, topic, len(records)) == records


def test_an_idempotent_producer_keeps_the_order(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    settings = {"enable_idempotence": True, "batch_size": 2000}
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap, **settings)) as producer:
        for number in range(500):
            producer.send(topic, str(number).encode())
        producer.flush(30)
    assert [int(message.value) for message in read(broker.bootstrap, topic, 500)] == list(range(500))


def test_timestamps_are_the_producers(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for timestamp in (1_600_000_000_000, 1_600_000_000_500):
            producer.send(topic, b"x", timestamp_ms=timestamp).get(30)
    messages = read(broker.bootstrap, topic, 2)
    assert [message.timestamp for message in messages] == [1_600_000_000_000, 1_600_000_000_500]
    assert {message.timestamp_type for message in messages} == {0}


def test_offsets_by_beginning_end_and_time(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for number in range(10):
            producer.send(topic, b"x", timestamp_ms=1_600_000_000_000 + number * 1000).get(30)
    where = TopicPartition(topic, 0)
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap)) as consumer:
        assert consumer.beginning_offsets([where]) == {where: 0}
        assert consumer.end_offsets([where]) == {where: 10}
        assert consumer.offsets_for_times({where: 1_600_000_004_500})[where].offset == 5
        assert consumer.partitions_for_topic(topic) == {0}


def test_a_message_over_the_limit_is_refused(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection, configs={"max.message.bytes": "1000"})
    # An idempotent producer of kafka-python takes this error for the end of everything.
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=False)) as producer:
        with pytest.raises(kafka_errors.MessageSizeTooLargeError):
            producer.send(topic, b"v" * 2000).get(30)
        producer.send(topic, b"v" * 500).get(30)


def test_topics_are_administered(admin: KafkaAdminClient, connection: Connection) -> None:
    name = new_name("kafka-python")
    admin.create_topics([NewTopic(name=name, num_partitions=2, replication_factor=1)])
    with pytest.raises(kafka_errors.TopicAlreadyExistsError):
        admin.create_topics([NewTopic(name=name, num_partitions=2, replication_factor=1)])
    wait_until(lambda: name in admin.list_topics(), "the topic is listed")
    [description] = admin.describe_topics([name])
    assert len(description["partitions"]) == 2
    admin.create_partitions({name: NewPartitions(total_count=3)})
    wait_until(lambda: list_offset(connection, name, 2, -1)[0] == 0, "the new partition can be read")
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, configs={"retention.ms": "60000"})])
    described = str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)]))
    assert "60000" in described
    admin.delete_topics([name])
    wait_until(lambda: name not in admin.list_topics(), "the topic is gone")


def test_the_cluster_is_described(admin: KafkaAdminClient, broker: BrokerProcess) -> None:
    cluster = admin.describe_cluster()
    assert [node["port"] for node in cluster["brokers"]] == [broker.port]
