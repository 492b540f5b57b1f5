"""The part of a flush that waits for the disk, so that it can wait in another thread than the log's owner."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from tidelog.model.errors import BrokerError
from tidelog.storage.errors import StorageFailure
from tidelog.storage.files import sync_directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.storage.log import Log
    from tidelog.storage.segment_file import SegmentFile

SYNCS_AT_A_TIME: Final = 32
LOGS_AT_A_TIME: Final = 256
"""Of a flush of many logs; each holds a file open."""


class PendingFlush:
    """Files to sync. Once `sync` returned, every batch below `end_offset` survives a crash of the machine."""

    __slots__ = ("directories", "end_offset", "files")

    def __init__(self, files: list[SegmentFile], directories: list[str], end_offset: int) -> None:
        self.files = files
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
                sync_directory(directory)
        except OSError as error:
            raise StorageFailure(f"cannot sync up to offset {self.end_offset}: {error}") from error


def begin_flush(log: Log) -> PendingFlush:
    """OSError when the files cannot be opened: then nothing has begun."""
    first = log.segment_index(log.recovery_point)
    is_due = log.recovery_point < log.log_end_offset
    files = [segment.open_file() for segment in log.segments[first:] if segment.size] if is_due else []
    directories: list[str] = []
    if is_due and log.directory_unsynced:
        log.directory_unsynced = False
        directories = [log.directory]
        if log.is_new:
            log.is_new = False
            directories.append(os.path.dirname(log.directory))
    flush = PendingFlush(files, directories, log.log_end_offset)
    log.flushes_under_way.append(flush)
    return flush


def limit_flushes(log: Log, end_offset: int) -> None:
    """The log was cut: what is flushed at the moment is worth nothing from `end_offset` on."""
    for flush in log.flushes_under_way:
        flush.end_offset = min(flush.end_offset, end_offset)


def flush_together(logs: Sequence[Log]) -> dict[Log, OSError | BrokerError]:
    """Flush many logs; those that could not be, and why: none of these may be flushed again (see `PendingFlush.sync`).

    Syncs that wait at the same time share the file system's commits, so a thousand logs take little longer than some
    tens one after the other. A directory that many of them lie in is synced once for all.
    """
    failed: dict[Log, OSError | BrokerError] = {}
    with ThreadPoolExecutor(SYNCS_AT_A_TIME, "flush-together") as threads:
        for start in range(0, len(logs), LOGS_AT_A_TIME):
            _flush_some(logs[start : start + LOGS_AT_A_TIME], threads, failed)
    return failed


def _flush_some(logs: Sequence[Log], threads: ThreadPoolExecutor, failed: dict[Log, OSError | BrokerError]) -> None:
    directories: dict[str, Future[None]] = {}
    begun: list[tuple[Log, PendingFlush, list[Future[None]]]] = []
    for log in logs:
        try:
            flush = begin_flush(log)
        except OSError as error:
            failed[log] = error
            continue
        paths, flush.directories = flush.directories, []
        waits = [threads.submit(flush.sync)] if flush.files else []
        for path in paths:
            if path not in directories:
                directories[path] = threads.submit(sync_directory, path)
            waits.append(directories[path])
        begun.append((log, flush, waits))
    for log, flush, waits in begun:
        try:
            for wait in waits:
                wait.result()
        except (OSError, BrokerError) as error:
            failed[log] = error
        else:
            log.finish_flush(flush)
