"""A disk of which a test replaces calls, while files on it are open."""

from __future__ import annotations

import os
from typing import Any

from tidelog.runtime.disk import DISK, Disk, Room
from tidelog.runtime.system import System


class FaultyDisk:
    """Works like the disks of this machine until one of its attributes is set to something else."""

    def __init__(self) -> None:
        self.pwrite: Any = DISK.pwrite
        self.pwritev: Any = DISK.pwritev
        self.fsync: Any = DISK.fsync
        self.fdatasync: Any = DISK.fdatasync
        self.posix_fallocate: Any = DISK.posix_fallocate
        self.free_bytes: int | None = None
        """What the disk says to have left; None for the truth."""
        self.disk = Disk(
            pwrite=lambda *call: self.pwrite(*call),
            pwritev=lambda *call: self.pwritev(*call),
            fsync=lambda fd: self.fsync(fd),
            fdatasync=lambda fd: self.fdatasync(fd),
            posix_fallocate=lambda *call: self.posix_fallocate(*call),
            room_at=self._room_at,
        )
        self.system = System(disk=self.disk)

    def _room_at(self, path: str | os.PathLike[str]) -> Room:
        room = DISK.room_at(path)
        return room if self.free_bytes is None else room.replace(free_bytes=self.free_bytes)
