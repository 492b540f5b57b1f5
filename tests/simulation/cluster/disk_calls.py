"""What nodes ask `os` for about their files: answered with real files, on a disk that may be full or lose its power."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tests.simulation.cluster.files import PLENTY_BYTES, SyncedFiles
from tests.simulation.cluster.process import PROCESS

from tidelog.model.limits import RESERVED_ROOM_BYTES
from tidelog.storage.reserved_room import RESERVE_FILE


class DiskCalls:
    """In place of what the module `os` does to the files of a node: whether that has room for it, and keeps it."""

    def __init__(self) -> None:
        self._pwrite, self._unlink, self._statvfs = os.pwrite, os.unlink, os.statvfs

    @staticmethod
    def _files() -> SyncedFiles | None:
        """None for whoever is no node, or is none any more."""
        process = PROCESS.get()
        return None if process is None or process.node is None or not process.is_alive else process.files

    def sync(self, fd: int) -> None:
        if (files := self._files()) is not None:
            files.synced(fd)

    def pwrite(self, fd: int, content: Any, position: int) -> int:
        files, view = self._files(), memoryview(content)
        taken = len(view) if files is None else files.take_room(len(view))
        return self._pwrite(fd, view[:taken], position)

    def pwritev(self, fd: int, parts: Sequence[Any], position: int) -> int:
        return self.pwrite(fd, b"".join(parts), position)

    def posix_fallocate(self, fd: int, offset: int, size: int) -> None:
        """The room is taken, the file stays empty: it would be copied at every crash."""
        if (files := self._files()) is not None and files.take_room(size) < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def unlink(self, path: Any, **options: Any) -> None:
        self._unlink(path, **options)
        if os.path.basename(path) == RESERVE_FILE and (files := self._files()) is not None:
            files.give_room(RESERVED_ROOM_BYTES)

    def statvfs(self, path: Any) -> Any:
        files = self._files()
        if files is None:
            return self._statvfs(path)
        return SimpleNamespace(f_bavail=files.free_bytes, f_blocks=PLENTY_BYTES, f_frsize=1)
