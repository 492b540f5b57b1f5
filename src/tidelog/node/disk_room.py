"""Whether the data directory has room for what may come next."""

from __future__ import annotations

from pathlib import Path

from tidelog.model import limits
from tidelog.runtime.disk import DISK, Disk


class DiskRoom:
    """Once there was too little, there has to be clearly more before there is enough again."""

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        self._path = path
        self._room_at = disk.room_at
        self._is_short = False

    def is_short(self) -> bool:
        try:
            free_bytes = self._room_at(self._path).free_bytes
        except OSError:
            # The next read or write there reports what is wrong.
            return self._is_short
        enough = limits.DISK_ROOM_BYTES_ENOUGH if self._is_short else limits.DISK_ROOM_BYTES_MIN
        self._is_short = free_bytes < enough
        return self._is_short
