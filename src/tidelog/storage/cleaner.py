"""Chooses which compacted log to compact next and runs one pass at a time in the executor.

Everything but the pass itself happens on the owner's thread. How far each log was compacted is kept in the data
directory's cleaner checkpoint; losing that file only means compacting again. A log with damage in it is left alone
until the next start, and one line says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.model.errors import BrokerError
from tidelog.storage.compaction import (
    find_cleanable,
    finish_compaction,
    is_worth_compacting,
    plan_compaction,
    still_fits,
)
from tidelog.storage.compaction_pass import CompactionResult, run_pass

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tidelog.model.ids import TopicPartition
    from tidelog.storage.compaction import CompactionPlan
    from tidelog.storage.log import Log
    from tidelog.storage.log_directory import LogDirectory

_PAUSE_S = 0.0001
RETRY_MS = 15_000
"""How long a log is left alone after a pass over it came to nothing (a full disk, an overtaking change)."""

logger = logging.getLogger("tidelog.storage")


class CompactionStopped(Exception):
    """The node is stopping; the pass was given up and left nothing behind."""


class Executor(Protocol):
    def submit(self, fn: Callable[[], CompactionResult], /) -> Future[CompactionResult]: ...


class LogCleaner:
    def __init__(
        self,
        directory: LogDirectory,
        *,
        executor: Executor,
        call_owner: Callable[..., Any],
        last_stable_offset: Callable[[TopicPartition], int | None],
        now_ms: Callable[[], int],
    ) -> None:
        """`last_stable_offset`: of a partition this node may compact, None for any other."""
        self._directory = directory
        self._executor = executor
        self._call_owner = call_owner
        self._last_stable_offset = last_stable_offset
        self._now_ms = now_ms
        self._uncleanable: set[TopicPartition] = set()
        self._not_before_ms: dict[TopicPartition, int] = {}
        self._is_stopping = False
        self.is_running = False
        self.passes = 0

    def maybe_start(self) -> bool:
        """Begin a pass over the log that needs it most; False when none does or one is under way."""
        if self.is_running or self._is_stopping:
            return False
        now_ms = self._now_ms()
        chosen = self._choose(now_ms)
        if chosen is None:
            return False
        topic_partition, log, plan = chosen
        self.is_running = True
        future = self._executor.submit(lambda: run_pass(plan, pause=self._pause))
        future.add_done_callback(lambda done: self._report(topic_partition, log, plan, done))
        return True

    def stop(self) -> None:
        """Begin no pass any more; the one that runs ends within a moment, without effect."""
        self._is_stopping = True

    def _pause(self) -> None:
        """In the pass's thread. Really sleeps: only then does the interpreter hand its lock to the owner at once."""
        if self._is_stopping:
            raise CompactionStopped
        time.sleep(_PAUSE_S)

    def _report(self, topic_partition: TopicPartition, log: Log, plan: CompactionPlan, done: Future[Any]) -> None:
        """In the pass's thread."""
        try:
            self._call_owner(self._done, topic_partition, log, plan, done)
        except RuntimeError:
            # The owner's loop is closed: the result is not needed any more.
            if done.exception() is None:
                done.result().discard()

    def _choose(self, now_ms: int) -> tuple[TopicPartition, Log, CompactionPlan] | None:
        best: tuple[float, TopicPartition, Log] | None = None
        for topic_partition, log in self._directory.logs.items():
            if not log.config.is_compacted or topic_partition in self._uncleanable or len(log.segments) == 1:
                continue
            if now_ms < self._not_before_ms.get(topic_partition, 0):
                continue
            last_stable_offset = self._last_stable_offset(topic_partition)
            if last_stable_offset is None:
                continue
            try:
                cleanable = find_cleanable(log, self._cleaner_offset(topic_partition), last_stable_offset, now_ms)
            except (BrokerError, OSError) as error:
                self._give_up(topic_partition, error)
                continue
            if is_worth_compacting(log, cleanable, now_ms) and (best is None or cleanable.dirty_ratio > best[0]):
                best = (cleanable.dirty_ratio, topic_partition, log)
        if best is None:
            return None
        _, topic_partition, log = best
        last_stable_offset = self._last_stable_offset(topic_partition) or 0
        try:
            cleanable = find_cleanable(log, self._cleaner_offset(topic_partition), last_stable_offset, now_ms)
            return topic_partition, log, plan_compaction(log, cleanable, now_ms)
        except (BrokerError, OSError) as error:
            self._give_up(topic_partition, error)
            return None

    def _cleaner_offset(self, topic_partition: TopicPartition) -> int:
        return self._directory.cleaner_offsets.get(topic_partition, 0)

    def _done(
        self, topic_partition: TopicPartition, log: Log, plan: CompactionPlan, future: Future[CompactionResult]
    ) -> None:
        self.is_running = False
        error = future.exception()
        if error is None:
            try:
                self._take_over(topic_partition, log, plan, future.result())
                return
            except (BrokerError, OSError) as failure:
                error = failure
        self._not_before_ms[topic_partition] = self._now_ms() + RETRY_MS
        if isinstance(error, CompactionStopped):
            return
        if isinstance(error, FileNotFoundError) or not still_fits(log, plan):
            # A segment was deleted or truncated while it was being read.
            logger.info("compaction of %s was overtaken: %s", topic_partition, error)
        elif isinstance(error, OSError):
            logger.warning("compaction of %s failed and will be tried again: %s", topic_partition, error)
        else:
            self._give_up(topic_partition, error)

    def _take_over(
        self, topic_partition: TopicPartition, log: Log, plan: CompactionPlan, result: CompactionResult
    ) -> None:
        self.passes += 1
        if self._directory.logs.get(topic_partition) is not log or not finish_compaction(log, plan, result):
            result.discard()
            self._not_before_ms[topic_partition] = self._now_ms() + RETRY_MS
            logger.info("compaction of %s was overtaken by another change", topic_partition)
            return
        self._directory.cleaner_offsets[topic_partition] = result.end_offset
        self._directory.write_cleaner_offsets()
        logger.info(
            "compacted %s up to offset %d: %d of %d records, %d of %d bytes kept",
            topic_partition,
            result.end_offset,
            result.records_kept,
            result.records_read,
            result.bytes_kept,
            result.bytes_read,
        )

    def _give_up(self, topic_partition: TopicPartition, error: BaseException) -> None:
        self._uncleanable.add(topic_partition)
        logger.error("%s will not be compacted until the next start: %s", topic_partition, error)
