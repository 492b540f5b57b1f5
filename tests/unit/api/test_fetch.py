"""How long a fetch waits: never for more than its response may carry."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.partitions.small_cluster import TOPIC_ID, SmallBroker, SmallCluster

from tidelog.net.client.pipelined import RpcClient
from tidelog.protocol.generated.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

VALUE = b"x" * 1000
FOREVER_MS = 100_000
PROMPTLY_S = 20


async def fetch_bytes(
    broker: SmallBroker, *, max_bytes: int, min_bytes: int, partition_max_bytes: int = 1 << 20, partitions: int = 1
) -> list[int]:
    """Bytes of each partition; TimeoutError when the fetch waits."""
    asked = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=partition_max_bytes)
        for index in range(partitions)
    ]
    request = FetchRequest(
        max_wait_ms=FOREVER_MS,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=asked)],
    )
    consumer = RpcClient("the node", lambda: ("127.0.0.1", broker.listener.port), client_id="consumer")
    try:
        async with asyncio.timeout(PROMPTLY_S):
            response = await consumer.call(request, FetchResponse, timeout_s=FOREVER_MS / 1000)
    finally:
        consumer.close()
    return [len(answer.records or b"") for topic in response.responses for answer in topic.partitions]


async def test_a_full_response_is_sent_at_once(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.leader
        for _ in range(10):
            await broker.produce(VALUE)
        [found] = await fetch_bytes(broker, max_bytes=5000, min_bytes=50_000)
        assert 4000 < found <= 5000
        [found] = await fetch_bytes(broker, max_bytes=1 << 20, min_bytes=5000, partition_max_bytes=5000)
        assert 4000 < found <= 5000


async def test_a_batch_that_does_not_fit_any_more_is_not_waited_for(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        cluster.add_partition(1)
        broker = cluster.leader
        for index in (0, 1):
            await broker.produce(VALUE * 3, index=index)
        assert sorted(await fetch_bytes(broker, max_bytes=5000, min_bytes=5000, partitions=2)) != [0, 0]


async def test_what_lies_in_an_older_segment_is_not_waited_for(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.leader
        await broker.produce(VALUE)
        broker.partition.log.writer.roll()
        await broker.produce(VALUE)
        [found] = await fetch_bytes(broker, max_bytes=1 << 20, min_bytes=5000)
        assert 1000 < found < 2000


async def test_less_than_the_client_wants_is_waited_for(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.leader
        await broker.produce(VALUE)
        waiting = asyncio.create_task(fetch_bytes(broker, max_bytes=1 << 20, min_bytes=3000))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.shield(waiting)
        await broker.produce(VALUE)
        await broker.produce(VALUE)
        [found] = await waiting
        assert found > 3000
