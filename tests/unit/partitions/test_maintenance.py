"""Chores go on for the other logs when one of them cannot be looked after."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.unit.partitions.small_cluster import TOPIC, SmallBroker, SmallCluster
from tests.waiting import eventually

from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig
from tidelog.model.ids import TopicPartition
from tidelog.partitions.maintenance import Maintenance
from tidelog.partitions.partition import Partition
from tidelog.runtime.clock import wall_clock_ms
from tidelog.storage.checkpoints import HIGH_WATERMARK_FILE, RECOVERY_POINT_FILE, read_offsets


@asynccontextmanager
async def maintained(
    path: Path, *, rolls_first: bool, retention_ms: int = -1, **settings: Any
) -> AsyncIterator[tuple[SmallBroker, list[Partition]]]:
    """Three partitions, of which the files of the first are gone; the others, and it if asked, have closed segments."""
    async with SmallCluster(path) as cluster:
        await cluster.start(1)
        cluster.add_partition(1)
        cluster.add_partition(2)
        broker = cluster.brokers[1]
        partitions = list(broker.table)
        assert [partition.index for partition in partitions] == [0, 1, 2]
        for partition in partitions:
            for _ in range(2):
                assert (await broker.produce_response(b"value", index=partition.index)).responses
                if partition.index or rolls_first:
                    partition.log.writer.roll()
            partition.log.update_config(TopicConfig(retention_ms=retention_ms))
        for segment in partitions[0].log.segments:
            segment.evict()
        shutil.rmtree(partitions[0].log.directory)
        config = BrokerConfig(node_id=1, **settings)
        chores = Maintenance(
            config, broker.table, broker.directory, broker.listener.shared.metrics, broker.workers, wall_clock_ms
        )
        chores.start()
        try:
            yield broker, partitions
        finally:
            await chores.stop()


async def test_retention_goes_on_behind_a_log_that_fails(tmp_path: Path) -> None:
    running = maintained(tmp_path, rolls_first=False, retention_ms=1, log_retention_check_interval_ms=20)
    async with running as (_, partitions):
        await eventually(
            lambda: all(one.log.log_start_offset == 2 for one in partitions[1:]), "old records are dropped"
        )
        assert partitions[0].log.log_start_offset == 0


async def test_checkpoints_are_written_for_the_others(tmp_path: Path) -> None:
    running = maintained(tmp_path, rolls_first=True, replica_high_watermark_checkpoint_interval_ms=20)
    async with running as (broker, _):
        others = {TopicPartition(TOPIC, 1): 2, TopicPartition(TOPIC, 2): 2}

        def is_safe(file: str) -> bool:
            offsets = read_offsets(str(broker.path / file))
            return offsets.items() >= others.items()

        await eventually(lambda: is_safe(RECOVERY_POINT_FILE) and is_safe(HIGH_WATERMARK_FILE), "checkpoints of others")
