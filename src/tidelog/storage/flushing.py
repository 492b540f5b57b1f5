"""The part of a flush that waits for the disk, so that it can wait in another thread than the log's owner."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.storage.errors import StorageFailure
from tidelog.storage.files import sync_directory

if TYPE_CHECKING:
    from tidelog.storage.files import OpenFile


class PendingFlush:
    """Files to sync. Once `sync` returned, every batch below `end_offset` survives a crash of the machine."""

    __slots__ = ("directories", "end_offset", "files")

    def __init__(self, files: list[OpenFile], directories: list[str], end_offset: int) -> None:
        self.files = files
        self.directories = directories
        """To be synced too, because something was created or removed in them."""
        self.end_offset = end_offset

    def sync(self) -> None:
        """Blocks. After StorageFailure nothing is known about the bytes: the kernel may have dropped them, and a second
        attempt would claim success. The owner must take the partition offline and recover it."""
        try:
            for file in self.files:
                os.fdatasync(file.fd)
            for directory in self.directories:
                sync_directory(directory)
        except OSError as error:
            raise StorageFailure(f"cannot sync up to offset {self.end_offset}: {error}") from error
