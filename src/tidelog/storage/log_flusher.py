"""The part of a flush that waits for the disk, so that it can wait in another thread than the log's owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.model.errors import BrokerError
from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.errors import StorageFailure
from tidelog.storage.files import sync_directory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor, Future

    from tidelog.storage.log import Log
    from tidelog.storage.log_state import LogState
    from tidelog.storage.segment_file import SegmentFile

SYNCS_AT_A_TIME: Final = 32
LOGS_AT_A_TIME: Final = 256
"""Of a flush of many logs; each holds a file open."""


class PendingFlush:
    """Files to sync. Once `sync` returned, every batch below `end_offset` survives a crash of the machine."""

    __slots__ = ("directories", "disk", "end_offset", "files")

    def __init__(self, files: list[SegmentFile], directories: list[str], end_offset: int, disk: Disk = DISK) -> None:
        self.files = files
        self.disk = disk
        self.directories = directories
        """To be synced too, because something was created or removed in them."""
        self.end_offset = end_offset
        """Lower once the log was cut below it: other bytes may stand there now than those that are synced."""

    def sync(self) -> None:
        """Blocks. After StorageFailure nothing is known about the bytes: the kernel may have dropped them, and a second
        attempt would claim success. The owner must take the partition offline and recover it."""
        try:
            for file in self.files:
                file.sync_data()
            for directory in self.directories:
                sync_directory(directory, self.disk)
        except OSError as error:
            raise StorageFailure(f"cannot sync up to offset {self.end_offset}: {error}") from error


class LogFlusher:
    """Makes what was appended to one log survive a crash of the machine, and so moves its recovery point."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    @property
    def has_unflushed_closed_segment(self) -> bool:
        """Whether a flush is due because a segment was closed: a start after a crash reads all that is not flushed."""
        return self._state.recovery_point < self._state.active_segment.base_offset

    def begin_flush(self) -> PendingFlush:
        """What must be synced to make everything appended so far safe: `sync` it in any thread, then `finish_flush`.

        OSError when the files cannot be opened: then nothing has begun.
        """
        state = self._state
        files: list[SegmentFile] = []
        directories: list[str] = []
        if state.recovery_point < state.log_end_offset:
            first = state.segment_index(state.recovery_point)
            files = [segment.open_file() for segment in state.segments[first:] if segment.size]
            directories = list(state.unsynced_directories)
        flush = PendingFlush(files, directories, state.log_end_offset, state.folder.disk)
        state.flush_begun(flush)
        return flush

    def finish_flush(self, flush: PendingFlush) -> None:
        """The flush was synced: the recovery point moves, up to where the log was cut meanwhile."""
        self._state.flush_finished(flush)

    def flush(self) -> None:
        """After this, everything appended survives a crash of the machine."""
        flush = self.begin_flush()
        try:
            flush.sync()
        except StorageFailure:
            self._state.flush_failed()
            raise
        self.finish_flush(flush)


def flush_together(logs: Sequence[Log], disk: Disk = DISK) -> dict[Log, OSError | BrokerError]:
    """Flush many logs of one disk; those that could not be, and why: none of these may be flushed again
    (see `PendingFlush.sync`).

    Syncs that wait at the same time share the file system's commits, so a thousand logs take little longer than some
    tens one after the other. A directory that many of them lie in is synced once for all.
    """
    failed: dict[Log, OSError | BrokerError] = {}
    with disk.start_sync_threads(SYNCS_AT_A_TIME) as threads:
        for start in range(0, len(logs), LOGS_AT_A_TIME):
            _flush_some(logs[start : start + LOGS_AT_A_TIME], threads, failed)
    return failed


def _flush_some(logs: Sequence[Log], threads: Executor, failed: dict[Log, OSError | BrokerError]) -> None:
    directories: dict[str, Future[None]] = {}
    begun: list[tuple[Log, PendingFlush, list[Future[None]]]] = []
    for log in logs:
        try:
            flush = log.flusher.begin_flush()
        except OSError as error:
            failed[log] = error
            continue
        paths, flush.directories = flush.directories, []
        waits = [threads.submit(flush.sync)] if flush.files else []
        for path in paths:
            if path not in directories:
                directories[path] = threads.submit(sync_directory, path, flush.disk)
            waits.append(directories[path])
        begun.append((log, flush, waits))
    for log, flush, waits in begun:
        try:
            for wait in waits:
                wait.result()
        except (OSError, BrokerError) as error:
            failed[log] = error
        else:
            log.flusher.finish_flush(flush)
