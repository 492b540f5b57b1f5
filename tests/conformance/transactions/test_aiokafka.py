"""aiokafka's transactional producer: the older flow, in Python."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic, new_name
from tests.servers.wire import Connection


async def run(broker: BrokerProcess, source: str, target: str, group: str) -> list[bytes]:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=new_name("txn"))
    await producer.start()
    partition = TopicPartition(source, 0)
    try:
        for number in range(6):
            await producer.begin_transaction()
            await producer.send_and_wait(target, b"%d" % number, partition=0)
            await producer.send_offsets_to_transaction({partition: number + 1}, group)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=group, isolation_level="read_committed", enable_auto_commit=False
    )
    await consumer.start()
    try:
        read = TopicPartition(target, 0)
        consumer.assign([read])
        await consumer.seek_to_beginning(read)
        values: list[bytes] = []
        async with asyncio.timeout(20):
            while len(values) < 3:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    values += [record.value for record in records]
        assert await consumer.committed(partition) == 5
        return values
    finally:
        await consumer.stop()


def test_commits_aborts_and_offsets(broker: BrokerProcess, connection: Connection) -> None:
    source, target = create_topic(connection), create_topic(connection)
    assert asyncio.run(run(broker, source, target, new_name("group"))) == [b"0", b"2", b"4"]
