"""The offset index of a segment: every few kilobytes of log, the last offset of a batch and where that batch begins.

On disk, per entry and big endian: offset relative to the segment's base (4 bytes), position in the log (4 bytes). The
index can always be made again from the log, so appends go to memory and reach the file when the segment is
closed, flushed or has many entries unsaved. Lookups see all of it.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final

from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.errors import CorruptIndex
from tidelog.storage.files import RESIDENT_INDEXES, read_whole, remove_if_present
from tidelog.storage.segment_file import READ, READ_WRITE, WRITE_OR_CREATE, SegmentFile

ENTRY: Final = Struct(">II")
ENTRY_SIZE: Final = ENTRY.size
UNSAVED_ENTRIES_MAX: Final = 2048
_SWAP: Final = sys.byteorder == "little"


class OffsetIndex:
    """Entries are in memory from the first use; `pinned` (the segment is active) keeps them there.

    `_offsets` and `_positions` are parallel and ascending; the first `_saved` of them are in the file.
    """

    __slots__ = ("_disk", "_offsets", "_positions", "_saved", "base_offset", "path", "pinned", "recently_used")

    def __init__(
        self, path: str, base_offset: int, *, pinned: bool = False, fresh: bool = False, disk: Disk = DISK
    ) -> None:
        self.path = path
        self._disk = disk
        self.base_offset = base_offset
        self.pinned = pinned
        self.recently_used = False
        self._offsets: array[int] | None = array("I") if fresh else None
        self._positions: array[int] = array("I")
        self._saved = 0

    def load(self, log_size: int) -> None:
        """Read the file if it is not in memory; CorruptIndex when it is missing or cannot belong to such a log."""
        self.recently_used = True
        if self._offsets is not None:
            return
        content = read_whole(self.path)
        if content is None:
            raise CorruptIndex("it is missing")
        if len(content) % ENTRY_SIZE:
            raise CorruptIndex(f"its size {len(content)} is not a multiple of {ENTRY_SIZE}")
        entries = array("I", content)
        if _SWAP:
            entries.byteswap()
        offsets, positions = entries[0::2], entries[1::2]
        if offsets and (offsets[-1] == 0 or positions[-1] >= log_size or positions[-1] < positions[0]):
            raise CorruptIndex(
                f"its last entry ({offsets[-1]}, {positions[-1]}) does not fit a log of {log_size} bytes"
            )
        self._positions = positions
        self._saved = len(offsets)
        self._offsets = offsets
        if not self.pinned:
            RESIDENT_INDEXES.admit(self, len(content))

    def evict(self) -> None:
        if not self.pinned and self._offsets is not None and self._saved == len(self._offsets):
            self._offsets = None
            self._positions = array("I")

    def __len__(self) -> int:
        assert self._offsets is not None
        return len(self._offsets)

    def append(self, offset: int, position: int) -> None:
        """Only for a loaded index; offset and position are larger than those before."""
        offsets = self._offsets
        assert offsets is not None
        offsets.append(offset - self.base_offset)
        self._positions.append(position)

    @property
    def unsaved(self) -> int:
        return 0 if self._offsets is None else len(self._offsets) - self._saved

    def lookup(self, offset: int) -> tuple[int, int]:
        """The entry with the largest offset not above `offset`; (base offset, 0) when there is none."""
        offsets = self._offsets
        assert offsets is not None
        at = bisect_right(offsets, offset - self.base_offset) - 1
        if at < 0:
            return self.base_offset, 0
        return self.base_offset + offsets[at], self._positions[at]

    def boundary_at_or_before(self, position: int) -> int:
        """The last position up to `position` where a batch is known to begin."""
        at = bisect_right(self._positions, position) - 1
        return 0 if at < 0 else self._positions[at]

    def offset_at_or_after(self, position: int) -> int | None:
        """The offset of the first entry at or behind the position: no batch before the position goes beyond it."""
        at = bisect_left(self._positions, position)
        if self._offsets is None or at >= len(self._offsets):
            return None
        return self.base_offset + self._offsets[at]

    def last_entry(self) -> tuple[int, int]:
        """Offset and position of the last entry; (base offset, 0) when there is none."""
        if not self._offsets:
            return self.base_offset, 0
        return self.base_offset + self._offsets[-1], self._positions[-1]

    def entries(self) -> list[tuple[int, int]]:
        assert self._offsets is not None
        return [
            (self.base_offset + offset, position)
            for offset, position in zip(self._offsets, self._positions, strict=True)
        ]

    def truncate_to(self, offset: int) -> None:
        """Forget every entry at or above the offset, in the file too."""
        offsets = self._offsets
        assert offsets is not None
        keep = bisect_left(offsets, max(0, offset - self.base_offset))
        del offsets[keep:]
        del self._positions[keep:]
        if self._saved > keep:
            self._saved = keep
            cut_entries(self.path, keep * ENTRY_SIZE)

    def reset(self) -> None:
        """Begin again with no entries; the file follows with the next save."""
        self._offsets = array("I")
        self._positions = array("I")
        self._saved = 0
        remove_if_present(self.path)

    def save(self) -> None:
        """Bring the file up to date with memory. Not synced: an index that a crash damages is made again."""
        if self._offsets is None:
            return
        fresh = array("I", bytes(ENTRY_SIZE * (len(self._offsets) - self._saved)))
        fresh[0::2] = self._offsets[self._saved :]
        fresh[1::2] = self._positions[self._saved :]
        if _SWAP:
            fresh.byteswap()
        save_entries(self.path, fresh.tobytes(), self._saved * ENTRY_SIZE, self._disk)
        self._saved = len(self._offsets)

    def unpin(self) -> None:
        """The segment is closed: from now on the entries may leave memory."""
        self.pinned = False
        if self._offsets is not None:
            RESIDENT_INDEXES.admit(self, len(self._offsets) * ENTRY_SIZE)


def save_entries(path: str, content: bytes, position: int, disk: Disk) -> None:
    """Write behind the first `position` bytes; if the disk refuses, the file is cut back to whole entries."""
    with SegmentFile(path, WRITE_OR_CREATE, disk) as file:
        try:
            file.write(content, position)
        except OSError:
            file.truncate(position)
            raise


def cut_entries(path: str, size: int) -> None:
    with SegmentFile(path, READ_WRITE) as file:
        file.truncate(size)


def read_last_entry(path: str, entry_size: int) -> bytes:
    """The last entry of an index file without reading the rest; empty when there is none."""
    with SegmentFile(path, READ) as file:
        size = file.size_bytes()
        if size % entry_size:
            raise CorruptIndex(f"its size {size} is not a multiple of {entry_size}")
        return file.read(entry_size, size - entry_size) if size else b""
