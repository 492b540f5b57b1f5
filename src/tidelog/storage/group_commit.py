"""When appended records reach the disk: group commit for requests that wait for it, Kafka's flush settings for the
rest.

One fsync at a time per log; all requests that come while it runs are answered together by the next one. The fsync runs
in the executor, everything else on the owner's thread. A failed fsync is never tried again: the kernel may have dropped
the pages it could not write and would report success for what is lost. All waiters get the error and the log stays
failed (`failure`). One that could not even begin fails its waiters only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.storage.errors import StorageFailure

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tidelog.config.topic import TopicConfig
    from tidelog.storage.log_flusher import PendingFlush

NEVER_MS = 2**63 - 1

logger = logging.getLogger("tidelog.storage")

FlushCallback = Callable[[StorageFailure | None], None]
"""Called on the owner's thread: None when everything appended before the request is on disk."""


class Flushable(Protocol):
    """What a flush needs of a log."""

    def begin_flush(self) -> PendingFlush: ...

    def finish_flush(self, flush: PendingFlush) -> None: ...


class Executor(Protocol):
    def submit(self, fn: Callable[[], None], /) -> Future[None]: ...


class GroupCommit:
    """The flushes of one log. `call_owner` brings a call onto the owner's thread (`loop.call_soon_threadsafe`)."""

    __slots__ = (
        "_call_owner",
        "_executor",
        "_log",
        "_on_failure",
        "_requested",
        "_running",
        "_waiters",
        "failure",
        "flushes",
    )

    def __init__(
        self,
        log: Flushable,
        executor: Executor,
        call_owner: Callable[..., Any],
        on_failure: Callable[[StorageFailure], None] | None = None,
    ) -> None:
        self.failure: StorageFailure | None = None
        self.flushes = 0
        """Fsyncs done, to be compared with the requests they answered."""
        self._log = log
        self._executor = executor
        self._call_owner = call_owner
        self._on_failure = on_failure
        self._running = False
        self._waiters: list[FlushCallback] = []
        """Waiters that the running fsync does not cover."""
        self._requested = False
        """Whether a sync was asked for since the running fsync began, by a waiter or not."""

    @property
    def is_running(self) -> bool:
        return self._running

    def request(self, callback: FlushCallback | None = None) -> None:
        """Have everything appended so far on disk, then call back. Costs an append to a list while a flush runs."""
        if self.failure is not None:
            if callback is not None:
                callback(self.failure)
            return
        if callback is not None:
            self._waiters.append(callback)
        self._requested = True
        if not self._running:
            self._start()

    def _start(self) -> None:
        waiters, self._waiters = self._waiters, []
        self._requested = False
        self._running = True
        try:
            flush = self._log.begin_flush()
        except OSError as error:
            self._not_begun(error, waiters)
            return
        try:
            future = self._executor.submit(flush.sync)
        except Exception as error:
            self._fail(error, waiters)
            return
        future.add_done_callback(lambda done: self._call_owner(self._done, done, flush, waiters))

    def _done(self, future: Future[None], flush: PendingFlush, waiters: list[FlushCallback]) -> None:
        error = future.exception()
        if error is not None:
            self._fail(error, waiters)
            return
        self.flushes += 1
        self._running = False
        self._log.finish_flush(flush)
        # The next fsync begins before the waiters are answered: the disk should not idle while replies are built.
        if self._requested:
            self._start()
        for callback in waiters:
            callback(None)

    def _not_begun(self, error: OSError, waiters: list[FlushCallback]) -> None:
        """There were too many open files, say: nothing was asked of the disk, so the next request may try again."""
        failure = StorageFailure(f"a log cannot be synced now: {error}")
        logger.error("%s", failure.message)
        self._running = False
        for callback in waiters:
            callback(failure)

    def _fail(self, error: BaseException, waiters: list[FlushCallback]) -> None:
        failure = error if isinstance(error, StorageFailure) else StorageFailure(f"the disk cannot be synced: {error}")
        logger.error("%s", failure.message)
        self.failure = failure
        self._running = False
        waiters = waiters + self._waiters
        self._waiters = []
        if self._on_failure is not None:
            self._on_failure(failure)
        for callback in waiters:
            callback(failure)


class FlushPolicy:
    """`flush.messages` and `flush.ms` of one log: says when a flush is due, does none itself."""

    __slots__ = ("_dirty_since_ms", "_flush_messages", "_flush_ms")

    def __init__(self, config: TopicConfig) -> None:
        self._dirty_since_ms = -1
        """When the oldest record that is not on disk was appended; -1 when all are."""
        self.update_config(config)

    def update_config(self, config: TopicConfig) -> None:
        self._flush_messages = config.flush_messages
        self._flush_ms = config.flush_ms

    @property
    def is_active(self) -> bool:
        """Whether any of the settings can ever ask for a flush; where not, an append need not ask."""
        return self._flush_messages < NEVER_MS or self._flush_ms < NEVER_MS

    def appended(self, unflushed_records: int, now_ms: int) -> bool:
        """After an append: True when so many records are unflushed that a flush is due now."""
        if self._dirty_since_ms < 0:
            self._dirty_since_ms = now_ms
        return unflushed_records >= self._flush_messages

    def flush_started(self) -> None:
        """What is appended from now on waits for the next one."""
        self._dirty_since_ms = -1

    def deadline_ms(self) -> int | None:
        """When `flush.ms` will ask for a flush; None when nothing waits or the setting is off."""
        if self._dirty_since_ms < 0 or self._flush_ms >= NEVER_MS:
            return None
        return self._dirty_since_ms + self._flush_ms
