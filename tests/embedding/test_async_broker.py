import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

import tidelog


def test_a_client_in_the_same_loop() -> None:
    async def run() -> None:
        async with tidelog.AsyncBroker({"num.partitions": 1}) as broker:
            await broker.create_topic("orders")
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
            await producer.start()
            for number in range(10):
                await producer.send_and_wait("orders", b"%d" % number)
            await producer.stop()
            consumer = AIOKafkaConsumer(
                "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
            )
            await consumer.start()
            found = [(await asyncio.wait_for(consumer.getone(), 60)).value for _ in range(10)]
            await consumer.stop()
            assert found == [b"%d" % number for number in range(10)]

    asyncio.run(run())


def test_restart_and_stop() -> None:
    async def run() -> Path:
        broker = tidelog.AsyncBroker()
        with pytest.raises(RuntimeError, match="not started"):
            _ = broker.bootstrap_servers
        await broker.start()
        await broker.create_topic("kept", partitions=2)
        port, data = broker.port, broker.data
        await broker.restart()
        assert broker.port == port
        assert broker.node.partition_count == 2
        await broker.stop()
        await broker.stop()
        return data

    assert not asyncio.run(run()).exists()


def test_a_failed_start_leaves_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        broker = tidelog.AsyncBroker(port=port)
        with pytest.raises(Exception, match=f"127.0.0.1:{port}"):
            await broker.start()
        assert not broker.is_running
        taken.close()
        await taken.wait_closed()
        # The data directory is free as well: the same broker starts once the port is.
        await broker.start()
        await broker.stop()

    asyncio.run(run())
