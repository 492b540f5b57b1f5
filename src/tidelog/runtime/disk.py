"""The system calls in which a disk can refuse a node, or forget what the node gave it.

They are writes, syncs, and room. Names (open, rename, remove) are not among them: a node finds them as it left them. A
`Disk` is handed down from the node to each file that is written, so that several nodes of one process can have
different disks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.model.value import Value

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tidelog.codec.buffers import Buffer


class Room(Value):
    """Of the file system that a path lies on."""

    free_bytes: int
    """For this process: some file systems keep a part for root."""
    size_bytes: int


def room_at(path: str | os.PathLike[str]) -> Room:
    """OSError when the path is not there or cannot be asked."""
    found = os.statvfs(path)
    return Room(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def start_sync_threads(count: int) -> Executor:
    # Imported here: a start has no use for it.
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count, "flush-together")


class Disk(Value):
    """The calls of the system, unless others are given."""

    pwrite: Callable[[int, Buffer, int], int] = os.pwrite
    pwritev: Callable[[int, Sequence[Buffer], int], int] = os.pwritev
    fsync: Callable[[int], None] = os.fsync
    fdatasync: Callable[[int], None] = os.fdatasync
    posix_fallocate: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
    """None on systems that do not have it."""
    unlink: Callable[[str], None] = os.unlink
    """For files that were there to hold room. Other files are removed without it."""
    room_at: Callable[[str | os.PathLike[str]], Room] = staticmethod(room_at)
    start_sync_threads: Callable[[int], Executor] = staticmethod(start_sync_threads)
    """Threads that sync many files at a time, while the caller waits for them."""


DISK = Disk()
"""The disks of this machine."""


class Folder(Value):
    """A directory, and the disk that it lies on."""

    path: str
    disk: Disk = DISK
