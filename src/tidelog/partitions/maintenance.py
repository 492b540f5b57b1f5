"""What happens to logs without a request: retention, compaction, checkpoints, forgetting old producers.

Each chore has its own interval and runs on the event loop in small steps; compaction and the removal of files run in
threads. A chore that fails, or fails for one log, is reported and tried again at its next turn: the node serves on,
and the other logs are looked after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from tidelog.model.errors import BrokerError
from tidelog.model.ids import TopicPartition
from tidelog.runtime.pauses import with_pauses
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.storage.cleaner import LogCleaner
from tidelog.storage.errors import StorageFailure
from tidelog.storage.leftovers import remove_all
from tidelog.storage.retention import apply_retention
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.partitions.partition import Partition
    from tidelog.partitions.table import PartitionTable
    from tidelog.storage.log_directory import LogDirectory
    from tidelog.telemetry.metrics import NodeMetrics

logger = get_logger("tidelog.maintenance")

LOGS_PER_TURN = 50
"""How many logs a chore looks at before it lets others run."""
LEFTOVERS_CHECK_S = 1.0
REFUSED_CHECK_S = 1.0
PRODUCER_EXPIRATION_CHECK_S = 600.0

Chore = Callable[[], Coroutine[Any, Any, None]]


class Maintenance:
    def __init__(
        self,
        config: BrokerConfig,
        table: PartitionTable,
        directory: LogDirectory,
        metrics: NodeMetrics,
        executor: Executor,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._table = table
        self._directory = directory
        self._metrics = metrics
        self._executor = executor
        self._now_ms = now_ms
        self._tasks = BackgroundTasks()
        self._cleaner: LogCleaner | None = None

    def start(self) -> None:
        config = self._config
        loop = asyncio.get_running_loop()
        if config.log_cleaner_enable:
            self._cleaner = LogCleaner(
                self._directory,
                executor=self._executor,
                call_owner=loop.call_soon_threadsafe,
                last_stable_offset=self._last_stable_offset,
                now_ms=self._now_ms,
            )
            self._every(config.log_cleaner_backoff_ms / 1000, self._compact)
        self._every(config.log_retention_check_interval_ms / 1000, self._retain)
        self._every(config.replica_high_watermark_checkpoint_interval_ms / 1000, self._checkpoint)
        self._every(PRODUCER_EXPIRATION_CHECK_S, self._expire_producers)
        self._every(LEFTOVERS_CHECK_S, self._remove_leftovers)
        self._every(REFUSED_CHECK_S, self._open_refused)

    async def stop(self) -> None:
        if self._cleaner is not None:
            self._cleaner.stop()
        await self._tasks.close()

    def _every(self, interval_s: float, chore: Chore) -> None:
        self._tasks.start(self._repeat(max(interval_s, 0.01), chore), f"maintenance {chore.__name__}")

    async def _repeat(self, interval_s: float, chore: Chore) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await chore()
            except Exception:
                logger.exception("a chore failed", chore=chore.__name__)

    # -- chores ----------------------------------------------------------------------------------------------------

    async def _retain(self) -> None:
        async for partition in with_pauses(list(self._table), LOGS_PER_TURN):
            if partition.failure is None:
                try:
                    result = apply_retention(partition.log, partition.high_watermark, self._now_ms())
                    self._metrics.segments_deleted += result.segments
                except (BrokerError, OSError) as error:
                    _report("a log keeps what it should drop", partition, error)

    async def _compact(self) -> None:
        assert self._cleaner is not None
        loop = asyncio.get_running_loop()
        while self._cleaner.maybe_start():
            started_s = loop.time()
            while self._cleaner.is_running:
                await asyncio.sleep(0.02)
            self._metrics.compactions += 1
            self._metrics.compactions_seconds += loop.time() - started_s

    def _last_stable_offset(self, topic_partition: TopicPartition) -> int | None:
        partition = self._table.find_partition(topic_partition.topic, topic_partition.partition)
        if partition is None or partition.failure is not None:
            return None
        return partition.last_stable_offset

    async def _checkpoint(self) -> None:
        """Syncs what lies in closed segments and remembers how far each log is safe: what a crash leaves to check."""
        for partition in list(self._table):
            if partition.failure is None and partition.log.flusher.has_unflushed_closed_segment:
                try:
                    await self._flush(partition)
                except (BrokerError, OSError) as error:
                    _report("a log is not synced yet", partition, error)
        try:
            self._directory.write_checkpoints(self._table.high_watermarks())
            self._directory.reserved_room.take()
        except OSError as error:
            logger.warning_limited("cannot write checkpoints yet", reason=str(error))

    async def _flush(self, partition: Partition) -> None:
        flush = partition.log.flusher.begin_flush()
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, flush.sync)
        except StorageFailure as failure:
            logger.error("a log cannot be synced", partition=str(partition), reason=failure.message)
            partition.fail(failure)
        else:
            partition.log.flusher.finish_flush(flush)

    async def _expire_producers(self) -> None:
        async for partition in with_pauses(list(self._table), LOGS_PER_TURN):
            partition.log.producer_state.remove_expired(self._now_ms())

    async def _open_refused(self) -> None:
        self._table.open_refused()

    async def _remove_leftovers(self) -> None:
        due = self._directory.take_leftovers()
        if due:
            await asyncio.get_running_loop().run_in_executor(self._executor, remove_all, due)


def _report(event: str, partition: Partition, error: BrokerError | OSError) -> None:
    reason = error.message if isinstance(error, BrokerError) else str(error)
    logger.warning_limited(event, limit_by=("partition",), partition=str(partition), reason=reason)
