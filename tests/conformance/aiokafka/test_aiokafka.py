"""aiokafka: records, offsets and administration."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError
from tests.conformance.aiokafka.client import consume, produce, receive, send
from tests.conformance.sample import Sample, samples
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic, new_name
from tests.servers.wire import Connection


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_come_back_whatever_acks_was(broker: BrokerProcess, connection: Connection, acks: int | str) -> None:
    topic = create_topic(connection)
    records = samples(f"acks {acks}")
    produce(broker.bootstrap, topic, records, acks=acks)
    assert consume(broker.bootstrap, topic, len(records)) == records


def test_an_idempotent_producer_keeps_the_order(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    records = [Sample(None, str(number)) for number in range(500)]
    metadata = asyncio.run(send(broker.bootstrap, topic, records, enable_idempotence=True, max_batch_size=2000))
    assert [entry.offset for entry in metadata] == list(range(500))
    assert consume(broker.bootstrap, topic, 500) == records


def test_timestamps_and_offsets_for_times(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection)
    where = TopicPartition(topic, 0)

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        for number in range(10):
            await producer.send_and_wait(topic, b"x", timestamp_ms=1_600_000_000_000 + number * 1000)
        await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
        await consumer.start()
        try:
            assert await consumer.beginning_offsets([where]) == {where: 0}
            assert await consumer.end_offsets([where]) == {where: 10}
            found = await consumer.offsets_for_times({where: 1_600_000_004_500})
            assert (found[where].offset, found[where].timestamp) == (5, 1_600_000_005_000)
        finally:
            await consumer.stop()

    asyncio.run(run())
    messages = asyncio.run(receive(broker.bootstrap, topic, 10))
    assert [message.timestamp for message in messages] == [1_600_000_000_000 + n * 1000 for n in range(10)]


def test_a_message_over_the_limit_is_refused(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection, configs={"max.message.bytes": "1000"})
    with pytest.raises(MessageSizeTooLargeError):
        produce(broker.bootstrap, topic, [Sample(None, "v" * 2000)])
    produce(broker.bootstrap, topic, [Sample(None, "v" * 500)])


def test_topics_are_administered(broker: BrokerProcess) -> None:
    name = new_name("aiokafka")

    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name=name, num_partitions=2, replication_factor=1)])
            again = await admin.create_topics([NewTopic(name=name, num_partitions=2, replication_factor=1)])
            assert [error[1] for error in again.topic_errors] == [TopicAlreadyExistsError.errno]
            assert name in await admin.list_topics()
            [description] = await admin.describe_topics([name])
            assert len(description["partitions"]) == 2
            await admin.delete_topics([name])
        finally:
            await admin.close()

    asyncio.run(run())
