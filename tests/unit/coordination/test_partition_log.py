"""The adapter on a real partition with a real log below it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidelog.config.topic import TopicConfig
from tidelog.coordination.host import CoreHost
from tidelog.coordination.log import LoadedBatch
from tidelog.coordination.partition_log import PartitionLog
from tidelog.groups.core.messages import Commit, FetchOffsets, OffsetToCommit
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.shard import GroupShard
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.partitions.core.leader import LeaderState
from tidelog.partitions.flushing import TimedExecutor
from tidelog.partitions.partition import Partition
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import build_end_txn_marker
from tidelog.runtime.clock import monotonic_ms
from tidelog.storage.log import Log
from tidelog.telemetry.metrics import DurationHistogram, TopicMetrics

NOW_MS = 1_700_000_000_000


class NoPeers:
    def role_changed(self, partition: Partition, /) -> None:
        raise AssertionError("nobody is told")

    def partition_removed(self, partition: Partition, /) -> None:
        raise AssertionError("nobody is told")

    def in_sync_proposed(self, partition: Partition, leader: LeaderState, in_sync: frozenset[int], /) -> None:
        raise AssertionError("nobody else is there")

    def follower_synced(self, partition: Partition, /) -> None:
        raise AssertionError("this node follows nobody")


class Disk:
    """Opens the one partition again and again, as restarts do."""

    def __init__(self, path: Path) -> None:
        self.path = path / "__consumer_offsets-0"
        self.executor = ThreadPoolExecutor(1)
        self.loop = asyncio.new_event_loop()

    def partition(
        self, *, in_sync: frozenset[int] = frozenset({1}), replicas: tuple[int, ...] = (), **settings: object
    ) -> Partition:
        config = TopicConfig(cleanup_policy=frozenset({"compact"}), **settings)
        where = TopicPartition("__consumer_offsets", 0)
        log = Log.open(self.path, where, config, topic_id=b"i" * 16, clean_shutdown=False)
        leader = LeaderState(
            node_id=1,
            leader_epoch=3,
            partition_epoch=0,
            replicas=replicas or in_sync,
            in_sync=in_sync,
            high_watermark=log.log_end_offset,
            log_end_offset=log.log_end_offset,
            live_brokers={},
            min_in_sync=config.min_insync_replicas,
            lag_time_max_ms=30_000,
            now_ms=0,
        )
        return Partition(
            topic=where.topic,
            index=0,
            topic_id=b"i" * 16,
            log=log,
            role=leader,
            config=config,
            metrics=TopicMetrics(),
            executor=TimedExecutor(self.executor, self.loop, DurationHistogram()),
            shell=NoPeers(),
            clock_ms=monotonic_ms,
        )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.executor.shutdown()
    disk.loop.close()


def test_what_is_appended_is_read_back_after_a_restart(disk: Disk) -> None:
    partition = disk.partition()
    log = PartitionLog(partition)
    assert log.is_empty
    assert log.append([(b"a", b"1"), (b"b", None)], NOW_MS) == 2
    assert log.append([(b"c", b"x" * 1000)], NOW_MS) == 3
    assert (log.end_offset, log.high_watermark, log.is_empty) == (3, 3, False)
    expected = [LoadedBatch([(0, b"a", b"1"), (1, b"b", None)]), LoadedBatch([(2, b"c", b"x" * 1000)])]
    assert list(log.batches()) == expected
    partition.log.close()
    partition = disk.partition()
    assert list(PartitionLog(partition).batches()) == expected
    partition.log.close()


def test_more_than_is_read_at_a_time(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.coordination.partition_log.READ_BYTES", 500)
    partition = disk.partition(segment_bytes=2000)
    log = PartitionLog(partition)
    for number in range(100):
        log.append([(b"%d" % number, b"v" * (number % 90) * 10)], NOW_MS)
    assert len(partition.log.segments) > 1
    assert [batch.records[0][1] for batch in log.batches()] == [b"%d" % number for number in range(100)]
    partition.log.close()


def test_transactions_and_batches_of_others_are_told_apart(disk: Disk) -> None:
    partition = disk.partition()
    log = PartitionLog(partition)
    log.append([(b"k", b"1")], NOW_MS, 7, 0)
    partition.append_own(
        build_end_txn_marker(producer_id=7, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp=NOW_MS),
        NOW_MS,
    )
    partition.append_own(build_batch([NewRecord(b"z", b"2", NOW_MS)], compression=4), NOW_MS)
    assert list(log.batches()) == [
        LoadedBatch([(0, b"k", b"1")], 7),
        LoadedBatch((), 7, True),
        LoadedBatch([(2, b"z", b"2")]),
    ]
    partition.log.close()


def test_what_cannot_be_written_is_refused_with_nothing_written(disk: Disk) -> None:
    partition = disk.partition(max_message_bytes=200)
    log = PartitionLog(partition)
    with pytest.raises(BrokerError) as caught:
        log.append([(b"k", b"x" * 200)], NOW_MS)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    partition.fail(BrokerError(ErrorCode.KAFKA_STORAGE_ERROR))
    with pytest.raises(BrokerError) as caught:
        log.append([(b"k", b"x")], NOW_MS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.end_offset == 0
    partition.log.close()


def test_too_few_replicas(disk: Disk) -> None:
    partition = disk.partition(replicas=(1, 2, 3), min_insync_replicas=2)
    with pytest.raises(BrokerError) as caught:
        PartitionLog(partition).append([(b"k", b"x")], NOW_MS)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    partition.log.close()


def test_a_write_is_committed_when_the_other_replica_has_it(disk: Disk) -> None:
    partition = disk.partition(in_sync=frozenset({1, 2}))
    log = PartitionLog(partition)
    heard: list[str] = []
    log.watch(lambda: heard.append("commit"), lambda: heard.append("lost"))
    log.append([(b"k", b"x")], NOW_MS)
    assert (log.end_offset, log.high_watermark, heard) == (1, 0, [])
    partition.follower_fetched(2, -1, 1, 0, 0)
    assert (log.high_watermark, heard) == (1, ["commit"])
    log.append([(b"k", b"y")], NOW_MS)
    partition.retire()
    assert heard == ["commit", "lost"]
    log.close()
    partition.log.close()


def test_a_group_shard_on_it(disk: Disk) -> None:
    async def run(offset: int | None) -> int:
        partition = disk.partition()
        host = CoreHost(GroupShard(GroupSettings()), PartitionLog(partition), name="p")
        await host.load()
        if offset is not None:
            await host.execute(host.core.decide_commit, Commit("g", "", None, -1, [OffsetToCommit("t", 0, offset)]))
        ((_, _, found),) = await host.execute(host.core.fetch_offsets, FetchOffsets("g", None))
        host.unload()
        partition.log.close()
        return found[0].offset

    assert asyncio.run(run(5)) == 5
    assert asyncio.run(run(6)) == 6
    assert asyncio.run(run(None)) == 6


def test_a_question_is_answered_once_what_the_last_leader_wrote_is_committed(disk: Disk) -> None:
    async def run() -> None:
        partition = disk.partition(in_sync=frozenset({1, 2}))
        PartitionLog(partition).append([(b"k", b"x")], NOW_MS)
        host = CoreHost(GroupShard(GroupSettings()), PartitionLog(partition), name="p", commit_timeout_ms=60_000)
        await host.load()
        answer = asyncio.ensure_future(host.execute(host.core.fetch_offsets, FetchOffsets("g", None)))
        await asyncio.sleep(0)
        assert not answer.done()
        partition.follower_fetched(2, -1, 1, 0, 0)
        await asyncio.wait_for(answer, 30)
        host.unload()
        partition.log.close()

    asyncio.run(run())
