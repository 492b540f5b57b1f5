"""DescribeLogDirs: the room of the disk that the node was given, and the replicas on it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.api.answering import ask
from tests.unit.partitions.small_cluster import TOPIC, SmallCluster

from tidelog.protocol.generated.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_the_directory_has_the_room_of_its_disk(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.leader
        broker.disk.free_bytes = 30
        services = broker.dispatcher.services
        services.controller.image = SimpleNamespace(is_cordoned=lambda node_id: node_id == broker.node_id)  # type: ignore[misc]
        await broker.produce(b"v")
        [found] = (await ask(services, DescribeLogDirsRequest(topics=None), 5)).results
        assert (found.log_dir, found.usable_bytes) == (str(broker.path), 30)
        assert found.total_bytes > 30
        assert found.is_cordoned
        [topic] = found.topics
        [partition] = topic.partitions
        assert (topic.name, partition.partition_index, partition.offset_lag) == (TOPIC, 0, 0)
        assert partition.partition_size == broker.partition.log.size_bytes > 0
        other = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=TOPIC, partitions=[7])])
        assert (await ask(services, other, 5)).results[0].topics == []
