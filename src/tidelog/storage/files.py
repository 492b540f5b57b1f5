"""Names of the files of a partition, how many may be open, and writing small files whole.

Every name is Kafka's: the base offset in twenty digits, then what the file is. File descriptors are few and partitions
are many, so a segment opens its file when it is first used and may lose it again (`RESIDENT_FILES`). A holder of the
`SegmentFile` can go on reading it, even after the segment was deleted.
"""

from __future__ import annotations

import os
import resource
import threading
from contextlib import suppress
from typing import Final, Protocol

from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.segment_file import READ, WRITE_NEW, SegmentFile

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

CLEANED_SUFFIX: Final = ".cleaned"
"""Being written by compaction; worthless after a crash."""
SWAP_SUFFIX: Final = ".swap"
"""Written whole by compaction and about to take the place of older segments; the swap is finished after a crash."""
DELETED_SUFFIX: Final = ".deleted"
"""No longer part of the log."""

LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"

_INDEX_BYTES_RESIDENT_MAX: Final = 16 * 1024 * 1024


def file_stem(offset: int) -> str:
    return f"{offset:020d}"


def offset_of_name(name: str) -> int | None:
    """The offset a file is named by, or None when the name is not one of a segment or snapshot."""
    stem = name[:20]
    return int(stem) if len(stem) == 20 and stem.isascii() and stem.isdigit() and name[20:21] == "." else None


class Resident(Protocol):
    """Something that holds a scarce thing it can get again."""

    recently_used: bool
    """Set by the holder at every use, cleared here: a second chance before eviction."""

    def evict(self) -> None:
        """Let go of it. May be called from any thread that makes something else resident."""


class Residency:
    """Bounds what all segments of the process hold together; the longest unused goes first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._weights: dict[Resident, int] = {}
        self._lock = threading.Lock()

    def admit(self, resident: Resident, weight: int = 1) -> None:
        evicted: list[Resident] = []
        with self._lock:
            self.held += weight - self._weights.pop(resident, 0)
            resident.recently_used = True
            spare = len(self._weights)
            while self.held > self.limit and self._weights:
                candidate = next(iter(self._weights))
                candidate_weight = self._weights.pop(candidate)
                if candidate.recently_used and spare > 0:
                    candidate.recently_used = False
                    self._weights[candidate] = candidate_weight
                    spare -= 1
                else:
                    self.held -= candidate_weight
                    evicted.append(candidate)
            self._weights[resident] = weight
        for candidate in evicted:
            candidate.evict()

    def discard(self, resident: Resident) -> None:
        with self._lock:
            self.held -= self._weights.pop(resident, 0)


def _open_files_max() -> int:
    """A third of what the process may open: sockets need the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(16, min(4096, soft // 3))


RESIDENT_FILES: Final = Residency(_open_files_max())
RESIDENT_INDEXES: Final = Residency(_INDEX_BYTES_RESIDENT_MAX)
"""Bytes of loaded indexes of closed segments; those of active segments are needed by every append and stay."""


def write_whole(path: str, content: bytes, *, sync: bool = False, disk: Disk = DISK) -> None:
    """Replace the file's content in one step: readers and crashes of the process see the old or the new, never a mix.

    Only with `sync` does that hold for a crash of the machine, and then the new name survives it too.
    """
    temporary = path + ".tmp"
    try:
        with SegmentFile(temporary, WRITE_NEW, disk) as file:
            file.write(content, 0)
            if sync:
                file.sync()
        os.replace(temporary, path)
    except OSError:
        remove_if_present(temporary)
        raise
    if sync:
        sync_directory(os.path.dirname(path), disk)


def read_whole(path: str) -> bytes | None:
    """The content, or None when there is no such file."""
    try:
        file = SegmentFile(path, READ)
    except FileNotFoundError:
        return None
    with file:
        return file.read(file.size_bytes(), 0)


def remove_if_present(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def sync_directory(path: str, disk: Disk = DISK) -> None:
    """After this, files created, renamed or removed in the directory stay so across a crash of the machine."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.fsync(fd)
    finally:
        os.close(fd)
