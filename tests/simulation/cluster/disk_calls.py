"""The disk of a simulated process: real files, on a disk that may be full or lose its power."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from tests.simulation.cluster.files import PLENTY_BYTES, SyncedFiles
from tests.simulation.cluster.process import Process

from tidelog.model.limits import RESERVED_ROOM_BYTES
from tidelog.runtime.disk import Disk, Room, room_at
from tidelog.storage.reserved_room import RESERVE_FILE


class SameThread(Executor):
    """In place of threads that their owner waits for: what they do belongs to the process that asks for it."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **options))
        except Exception as error:
            done.set_exception(error)
        return done


class DiskCalls:
    """Whether the disk has room for what the process writes, and keeps it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def as_disk(self) -> Disk:
        return Disk(
            pwrite=self.pwrite,
            pwritev=self.pwritev,
            fsync=self.sync,
            fdatasync=self.sync,
            posix_fallocate=self.posix_fallocate,
            unlink=self.unlink,
            room_at=self.room_at,
            start_sync_threads=lambda _: SameThread(),
        )

    @property
    def _files(self) -> SyncedFiles | None:
        """None for a process that has ended: what it writes now is not read again."""
        return self._process.files if self._process.is_alive else None

    def sync(self, fd: int) -> None:
        if (files := self._files) is not None:
            files.synced(fd)

    def pwrite(self, fd: int, content: Any, position: int) -> int:
        files, view = self._files, memoryview(content)
        taken = len(view) if files is None else files.take_room(len(view))
        return os.pwrite(fd, view[:taken], position)

    def pwritev(self, fd: int, parts: Sequence[Any], position: int) -> int:
        return self.pwrite(fd, b"".join(parts), position)

    def posix_fallocate(self, fd: int, offset: int, size: int) -> None:
        """The room is taken, the file stays empty: it would be copied at every crash."""
        if (files := self._files) is not None and files.take_room(size) < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def unlink(self, path: str) -> None:
        os.unlink(path)
        if os.path.basename(path) == RESERVE_FILE and (files := self._files) is not None:
            files.give_room(RESERVED_ROOM_BYTES)

    def room_at(self, path: str | os.PathLike[str]) -> Room:
        files = self._files
        return room_at(path) if files is None else Room(files.free_bytes, PLENTY_BYTES)
