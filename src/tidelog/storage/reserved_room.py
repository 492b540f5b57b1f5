"""Reserved room on the disk: a file that holds nothing and is deleted when there is no other room.

What frees space has to be written down first, and so has the start of a node. On a disk that is full to the last byte
neither would be possible: even deleting a topic would fail for want of room.
"""

from __future__ import annotations

import os
from contextlib import suppress

from tidelog.model.limits import DISK_ROOM_BYTES_ENOUGH, DISK_ROOM_BYTES_MIN, RESERVED_ROOM_BYTES
from tidelog.runtime.disk import Folder

RESERVE_FILE = "tidelog-reserve"


class ReservedRoom:
    """Of one data directory; everything about it is on the disk."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._disk = folder.disk
        self._path = os.path.join(folder.path, RESERVE_FILE)

    def settle(self) -> None:
        """At a start: taken where there is enough room, given up where there is none to start with."""
        if self._free_bytes() < DISK_ROOM_BYTES_MIN:
            self.give_up()
        else:
            self.take()

    def take(self) -> None:
        """Does nothing if it is there, if there is not enough room to spare some, or on systems that cannot."""
        allocate = self._disk.posix_fallocate
        if allocate is None or os.path.exists(self._path):
            return
        if self._free_bytes() < DISK_ROOM_BYTES_ENOUGH:
            return
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                allocate(fd, 0, RESERVED_ROOM_BYTES)
            finally:
                os.close(fd)
        except OSError:
            # Not every file system can, and none has to.
            self.give_up()

    def give_up(self) -> None:
        """The caller has to write at once, before another writer takes the room."""
        with suppress(FileNotFoundError):
            self._disk.unlink(self._path)

    def _free_bytes(self) -> int:
        return self._disk.room_at(self._folder.path).free_bytes
