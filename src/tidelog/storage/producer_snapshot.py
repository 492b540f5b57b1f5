"""Producer state on disk: `<offset>.snapshot` holds what was known of producers when the log ended at that offset.

Kafka's format, version 1, big endian: version (2 bytes), CRC-32C of what follows it (4), number of entries (4), then
per producer 46 bytes: id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first
offset of the open transaction. Taken at every roll and at a clean close, so that a start replays at most one segment.
"""

from __future__ import annotations

import logging
import os
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.crc32c import crc32c
from tidelog.storage.errors import CorruptSnapshot
from tidelog.storage.files import SNAPSHOT_SUFFIX, file_stem, read_whole, remove_if_present, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidelog.runtime.disk import Folder
    from tidelog.storage.producer_state import ProducerState

logger = logging.getLogger("tidelog.storage")

VERSION: Final = 1
_PREFIX: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
EMPTY_SIZE: Final = _PREFIX.size + _COUNT.size


class ProducerSnapshotEntry(NamedTuple):
    producer_id: int
    epoch: int
    last_sequence: int
    """-1 when no batch of this epoch is remembered."""
    last_offset: int
    """-1 likewise."""
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int
    """-1 when no transaction is open."""


def encode_snapshot(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(content: bytes) -> list[ProducerSnapshotEntry]:
    if len(content) < EMPTY_SIZE:
        raise CorruptSnapshot(f"{len(content)} bytes are too few")
    version, crc = _PREFIX.unpack_from(content)
    if version != VERSION:
        raise CorruptSnapshot(f"version {version} is not known")
    if crc32c(memoryview(content)[_PREFIX.size :]) != crc:
        raise CorruptSnapshot("the checksum is wrong")
    (count,) = _COUNT.unpack_from(content, _PREFIX.size)
    if count * _ENTRY.size != len(content) - EMPTY_SIZE:
        raise CorruptSnapshot(f"{count} entries do not fill {len(content)} bytes")
    return [ProducerSnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(memoryview(content)[EMPTY_SIZE:])]


def snapshot_path(directory: str, offset: int) -> str:
    return os.path.join(directory, file_stem(offset) + SNAPSHOT_SUFFIX)


def write_snapshot(folder: Folder, offset: int, entries: Iterable[ProducerSnapshotEntry]) -> None:
    """Replaces the file in one step; not synced, since a damaged snapshot is noticed and the log says the same."""
    write_whole(snapshot_path(folder.path, offset), encode_snapshot(entries), disk=folder.disk)


def read_snapshot(directory: str, offset: int) -> list[ProducerSnapshotEntry]:
    content = read_whole(snapshot_path(directory, offset))
    if content is None:
        raise CorruptSnapshot("it is missing")
    return decode_snapshot(content)


class ProducerSnapshots:
    """The producer snapshots of one log that are on disk, by the offset at which they were taken."""

    __slots__ = ("_folder", "_offsets")

    def __init__(self, folder: Folder, offsets: set[int]) -> None:
        self._folder = folder
        self._offsets = offsets

    def __contains__(self, offset: int) -> bool:
        return offset in self._offsets

    def offsets(self) -> list[int]:
        return sorted(self._offsets)

    def take(self, offset: int, state: ProducerState) -> None:
        """What is known of producers, to disk; a disk that refuses makes only the next start slower."""
        try:
            write_snapshot(self._folder, offset, state.snapshot())
            self._offsets.add(offset)
        except OSError as error:
            logger.warning("cannot write %s: %s", snapshot_path(self._folder.path, offset), error)

    def remove(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._offsets.discard(offset)
            remove_if_present(snapshot_path(self._folder.path, offset))

    def rebuild(self, rebuild: Callable[[dict[int, int]], None]) -> None:
        """`rebuild` gets the offsets as keys and takes out, or adds, what it removes or writes."""
        found = dict.fromkeys(self.offsets(), 0)
        rebuild(found)
        self._offsets = set(found)
