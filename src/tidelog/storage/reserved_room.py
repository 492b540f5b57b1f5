"""Some room on the disk that nobody else can take: a file that holds nothing and can go when there is no other.

What frees space has to be written down first, and so has the start of a node. On a disk that is full to the last byte
neither would be possible, and the operator who wants to delete a topic would be told that there is no room for it.
"""

from __future__ import annotations

import os

from tidelog.model.limits import DISK_ROOM_BYTES_ENOUGH, DISK_ROOM_BYTES_MIN, RESERVED_ROOM_BYTES
from tidelog.storage.files import remove_if_present

RESERVE_FILE = "tidelog-reserve"


class ReservedRoom:
    """Of one data directory; everything about it is on the disk."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = os.path.join(directory, RESERVE_FILE)

    def settle(self) -> None:
        """At a start: taken where there is enough room, given up where there is none to start with."""
        if self._free_bytes() < DISK_ROOM_BYTES_MIN:
            self.give_up()
        else:
            self.take()

    def take(self) -> None:
        """Does nothing if it is there, if there is not enough room to spare some, or on systems that cannot."""
        if not hasattr(os, "posix_fallocate") or os.path.exists(self._path):
            return
        if self._free_bytes() < DISK_ROOM_BYTES_ENOUGH:
            return
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.posix_fallocate(fd, 0, RESERVED_ROOM_BYTES)
            finally:
                os.close(fd)
        except OSError:
            # Not every file system can, and none has to.
            remove_if_present(self._path)

    def give_up(self) -> None:
        """The caller writes at once, before anybody else does."""
        remove_if_present(self._path)

    def _free_bytes(self) -> int:
        disk = os.statvfs(self._directory)
        return disk.f_bavail * disk.f_frsize
