"""Transactions on replicas: what each of them keeps in memory."""

from __future__ import annotations

from pathlib import Path

from tests.unit.partitions.small_cluster import SmallCluster
from tests.unit.storage.log_building import data, marker
from tests.waiting import eventually


async def test_no_replica_keeps_transactions_that_are_over(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(2)
        partitions = [cluster.brokers[1].partition, cluster.brokers[2].partition]
        leader = next(partition for partition in partitions if partition.is_leader)
        for sequence in range(5):
            leader.append_own(data(7, 0, sequence, transactional=True), 0)
            leader.append_own(marker(7, 0, commit=True), 0)
        end = leader.log.log_end_offset
        await eventually(lambda: all(p.high_watermark == end for p in partitions), "all of it is committed on both")
        # What is kept in memory has no public name.
        assert [len(each.log.producer_state._undelivered) for each in partitions] == [0, 0]  # noqa: SLF001
