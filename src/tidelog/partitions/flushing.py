"""When the log of a partition is synced: before acks=all is answered, after so many records, or after so long.

The fsync itself runs in a thread (`storage.group_commit`); everything here is on the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING

from tidelog.config.topic import TopicConfig
from tidelog.storage.errors import StorageFailure
from tidelog.storage.group_commit import FlushPolicy, GroupCommit
from tidelog.telemetry.metrics import DurationHistogram

if TYPE_CHECKING:
    from tidelog.partitions.partition import Partition


RETRY_S = 0.1
"""After this time a sync that could not begin is tried again."""


class TimedExecutor:
    """A thread pool whose work is timed, for the figures of fsync."""

    __slots__ = ("_executor", "_loop", "_observed")

    def __init__(self, executor: Executor, loop: asyncio.AbstractEventLoop, observed: DurationHistogram) -> None:
        self._executor = executor
        self._loop = loop
        self._observed = observed

    def submit(self, fn: Callable[[], None], /) -> Future[None]:
        return self._executor.submit(self._run, fn)

    def _run(self, fn: Callable[[], None]) -> None:
        started_s = time.perf_counter()
        fn()
        self._loop.call_soon_threadsafe(self._observed.observe, time.perf_counter() - started_s)


class Flushing:
    """The flush settings of one partition put into effect. Only partitions that have such settings have one."""

    __slots__ = ("_commit", "_is_stopped", "_loop", "_partition", "_policy", "_timer", "is_before_ack")

    def __init__(self, partition: Partition, config: TopicConfig, executor: TimedExecutor) -> None:
        self._partition = partition
        self._loop = asyncio.get_running_loop()
        self._commit = GroupCommit(
            partition.log.flusher, executor, self._loop.call_soon_threadsafe, on_failure=partition.fail
        )
        self._policy = FlushPolicy(config)
        self.is_before_ack = config.tidelog_flush == "ack"
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    @staticmethod
    def is_needed(config: TopicConfig) -> bool:
        return config.tidelog_flush == "ack" or FlushPolicy(config).is_active

    def appended(self, now_ms: int) -> None:
        """The log has grown; returns at once."""
        partition = self._partition
        if self.is_before_ack:
            self._commit.request(self._synced)
            return
        partition.local_end_reached(partition.log.log_end_offset)
        if self._policy.appended(partition.log.log_end_offset - partition.log.recovery_point, now_ms):
            self._start()
        elif self._timer is None:
            deadline_ms = self._policy.deadline_ms()
            if deadline_ms is not None:
                self._timer = self._loop.call_later((deadline_ms - now_ms) / 1000, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._policy.flush_started()
        self._commit.request()

    def _synced(self, failure: StorageFailure | None) -> None:
        if failure is None:
            self._partition.local_end_reached(self._partition.log.recovery_point)
        elif self._commit.failure is None and self._timer is None and not self._is_stopped:
            # The sync did not begin, and no other append may ask for one: a follower fetches again only after this
            # sync.
            self._timer = self._loop.call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        self._commit.request(self._synced)

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
