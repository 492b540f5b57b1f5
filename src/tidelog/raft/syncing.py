"""Syncs of a member's disk: one at a time in a worker thread, each for everything that was written before it began."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from tidelog.raft.store import PendingSync, QuorumStore
from tidelog.storage.errors import StorageFailure


class Syncer:
    """`persisted` is called on the loop with the number of the last write that is on disk, `failed` instead of it."""

    def __init__(
        self,
        store: QuorumStore,
        executor: Executor | None,
        persisted: Callable[[int], None],
        failed: Callable[[StorageFailure], None],
    ) -> None:
        self._store = store
        self._executor = executor
        self._persisted = persisted
        self._failed = failed
        self._written = 0
        self._running: asyncio.Future[None] | None = None
        self._is_dirty = False
        self.syncs = 0
        """Syncs done, to be compared with the writes they made durable."""

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def request(self, write_id: int) -> None:
        """The write is in the page cache and is to be on disk."""
        self._written = write_id
        self._is_dirty = True
        if self._running is None:
            self._start()

    def _start(self) -> None:
        self._is_dirty = False
        write_id = self._written
        try:
            sync = self._store.begin_sync()
        except OSError as error:
            self._failed(StorageFailure(f"the metadata log cannot be synced: {error}"))
            return
        self._running = asyncio.get_running_loop().run_in_executor(self._executor, sync.run)
        self._running.add_done_callback(lambda done: self._done(done, sync, write_id))

    def _done(self, done: asyncio.Future[None], sync: PendingSync, write_id: int) -> None:
        self._running = None
        if done.cancelled() or not self._store.is_open:
            return
        error = done.exception()
        if error is not None:
            failure = error if isinstance(error, StorageFailure) else StorageFailure(f"syncing failed: {error!r}")
            self._failed(failure)
            return
        self.syncs += 1
        self._store.finish_sync(sync)
        # The next sync begins before this one is reported: the disk should not idle while messages are built.
        if self._is_dirty:
            self._start()
        self._persisted(write_id)

    async def drain(self) -> None:
        """Returns when no sync is running; its outcome has been reported."""
        while self._running is not None:
            await asyncio.wait([self._running])
            await asyncio.sleep(0)
