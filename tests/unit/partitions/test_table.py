"""The table of partitions: what may be done off the event loop, and what a disk that refuses leads to."""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.unit.partitions.small_cluster import TOPIC, SmallBroker, SmallCluster

from tidelog.metadata.delta import MetadataDelta
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.partitions.table import PARTITIONS_BESIDE_MIN, PartitionTable
from tidelog.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.storage.checkpoints import LOG_START_FILE
from tidelog.storage.log_directory import LogDirectory

NEW_ID = b"n" * 16


class WatchedThreads(ThreadPoolExecutor):
    """Tells what each piece of work changed in the table of open logs while it ran."""

    def __init__(self, directory: LogDirectory) -> None:
        super().__init__(1)
        self._directory = directory
        self.ran = 0
        self.changed: set[TopicPartition] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def run() -> Any:
            before = set(self._directory.logs)
            result = fn(*args, **kwargs)
            self.changed |= before ^ set(self._directory.logs)
            self.ran += 1
            return result

        return super().submit(run)


async def test_threads_open_logs_but_the_loop_takes_them_in(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.brokers[1]
        with WatchedThreads(broker.directory) as threads:
            table = PartitionTable(
                config=broker.config,
                directory=broker.directory,
                metrics=broker.listener.shared.metrics,
                workers=threads,
                replication=broker.replication,
            )
            await table.load(cluster.image)
            delta = MetadataDelta(cluster.image, [TopicRecord(name="many", topic_id=NEW_ID)])
            for index in range(PARTITIONS_BESIDE_MIN):
                delta.replay(PartitionRecord(partition_id=index, topic_id=NEW_ID, replicas=[1], isr=[1], leader=1))
            image = delta.apply(cluster.image.offset + 1, 0)
            await table.prepare(image, delta)
            assert threads.ran > 0
            assert threads.changed == set()
            opened = {TopicPartition("many", index) for index in range(PARTITIONS_BESIDE_MIN)}
            assert opened <= set(broker.directory.logs)
            logs = dict(broker.directory.logs)
            table.apply(image, delta)
            assert broker.directory.logs == logs, "what was opened in advance is used"
            assert len(table) == 1 + PARTITIONS_BESIDE_MIN


async def delete_records(broker: SmallBroker, offset: int) -> tuple[int, int]:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=[partition])
    response = await broker.client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), DeleteRecordsResponse)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


async def test_records_cannot_be_deleted_for_good_when_the_disk_refuses(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.brokers[1]
        log = broker.partition.log
        for _ in range(3):
            assert (await broker.produce(b"a", b"b"))[0] == 0
            log.writer.roll()
        # A directory where the new file would be written is as good as a disk without room.
        in_the_way = broker.path / f"{LOG_START_FILE}.tmp"
        in_the_way.mkdir()
        assert await delete_records(broker, 5) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert log.segments[0].base_offset == 4, "what nobody can read any more makes room at once"
        in_the_way.rmdir()
        assert await delete_records(broker, 5) == (0, 5)


async def test_a_log_for_which_there_was_no_room_is_opened_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        table = cluster.brokers[1].table
        delta = MetadataDelta(cluster.image, [TopicRecord(name="new", topic_id=NEW_ID)])
        delta.replay(PartitionRecord(partition_id=0, topic_id=NEW_ID, replicas=[1], isr=[1], leader=1))
        image = delta.apply(cluster.image.offset + 1, 0)

        def refuse(*_: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(cluster.brokers[1].disk, "pwrite", refuse)
            table.apply(image, delta)
            table.open_refused()
            assert table.find_partition("new", 0) is None
            assert table.offline_count == 1
        table.open_refused()
        assert table.require("new", 0).log.log_end_offset == 0
        assert table.find_partition(NEW_ID, 0) is table.require("new", 0)
        assert table.offline_count == 0
