"""The time index of a segment: the largest timestamp so far and the last offset of the batch that brought it.

On disk, per entry and big endian: timestamp (8 bytes), offset relative to the segment's base (4 bytes). An entry is
made with every entry of the offset index if the timestamp grew, and when the segment is closed, so the last entry of a
closed segment holds its largest timestamp. Kept in memory and rebuilt like the offset index.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct
from typing import Final

from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.errors import CorruptIndex
from tidelog.storage.files import RESIDENT_INDEXES, read_whole, remove_if_present
from tidelog.storage.offset_index import cut_entries, read_last_entry, save_entries

ENTRY: Final = Struct(">qI")
ENTRY_SIZE: Final = ENTRY.size


class TimeIndex:
    """`_timestamps` strictly ascends and `_offsets` never descends; the first `_saved` entries are in the file."""

    __slots__ = (
        "_disk",
        "_offsets",
        "_saved",
        "_timestamps",
        "base_offset",
        "last_timestamp",
        "path",
        "pinned",
        "recently_used",
    )

    def __init__(
        self, path: str, base_offset: int, *, pinned: bool = False, fresh: bool = False, disk: Disk = DISK
    ) -> None:
        self.path = path
        self._disk = disk
        self.base_offset = base_offset
        self.pinned = pinned
        self.recently_used = False
        self.last_timestamp = -1
        """Of the last entry; -1 when there is none. Right only while loaded."""
        self._timestamps: array[int] | None = array("q") if fresh else None
        self._offsets: array[int] = array("I")
        self._saved = 0

    def load(self) -> None:
        """Read the file if it is not in memory; CorruptIndex when it is missing or not in order."""
        self.recently_used = True
        if self._timestamps is not None:
            return
        content = read_whole(self.path)
        if content is None:
            raise CorruptIndex("it is missing")
        if len(content) % ENTRY_SIZE:
            raise CorruptIndex(f"its size {len(content)} is not a multiple of {ENTRY_SIZE}")
        timestamps, offsets = array("q"), array("I")
        for timestamp, offset in ENTRY.iter_unpack(content):
            timestamps.append(timestamp)
            offsets.append(offset)
        if any(later <= earlier for earlier, later in pairwise(timestamps)) or (timestamps and timestamps[0] < 0):
            raise CorruptIndex("its timestamps do not ascend")
        if any(later < earlier for earlier, later in pairwise(offsets)):
            raise CorruptIndex("its offsets do not ascend")
        self._offsets = offsets
        self._saved = len(timestamps)
        self.last_timestamp = timestamps[-1] if timestamps else -1
        self._timestamps = timestamps
        if not self.pinned:
            RESIDENT_INDEXES.admit(self, len(content))

    def evict(self) -> None:
        if not self.pinned and self._timestamps is not None and self._saved == len(self._timestamps):
            self._timestamps = None
            self._offsets = array("I")

    def __len__(self) -> int:
        assert self._timestamps is not None
        return len(self._timestamps)

    def maybe_append(self, timestamp: int, offset: int) -> None:
        if timestamp > self.last_timestamp:
            timestamps = self._timestamps
            assert timestamps is not None
            timestamps.append(timestamp)
            self._offsets.append(offset - self.base_offset)
            self.last_timestamp = timestamp

    def lookup(self, timestamp: int) -> int:
        """The offset of the last entry not later than the timestamp, the base offset when there is none.

        The batch of that offset is the first that reached the entry's timestamp: no batch before it needs looking at.
        """
        timestamps = self._timestamps
        assert timestamps is not None
        at = bisect_right(timestamps, timestamp) - 1
        return self.base_offset if at < 0 else self.base_offset + self._offsets[at]

    def last_entry(self) -> tuple[int, int]:
        """The largest timestamp and its offset, (-1, base offset) when there is none; reads no more than it must."""
        if self._timestamps is not None:
            if not self._timestamps:
                return -1, self.base_offset
            return self._timestamps[-1], self.base_offset + self._offsets[-1]
        try:
            content = read_last_entry(self.path, ENTRY_SIZE)
        except FileNotFoundError:
            raise CorruptIndex("it is missing") from None
        if not content:
            return -1, self.base_offset
        timestamp, offset = ENTRY.unpack(content)
        return timestamp, self.base_offset + offset

    def entries(self) -> list[tuple[int, int]]:
        assert self._timestamps is not None
        return [
            (timestamp, self.base_offset + offset)
            for timestamp, offset in zip(self._timestamps, self._offsets, strict=True)
        ]

    def truncate_to(self, offset: int) -> None:
        """Forget every entry whose offset is at or above this one, in the file too."""
        timestamps = self._timestamps
        assert timestamps is not None
        keep = bisect_left(self._offsets, max(0, offset - self.base_offset))
        del timestamps[keep:]
        del self._offsets[keep:]
        self.last_timestamp = timestamps[-1] if timestamps else -1
        if self._saved > keep:
            self._saved = keep
            cut_entries(self.path, keep * ENTRY_SIZE)

    def reset(self) -> None:
        """Begin again with no entries; the file follows with the next save."""
        self._timestamps = array("q")
        self._offsets = array("I")
        self._saved = 0
        self.last_timestamp = -1
        remove_if_present(self.path)

    def save(self) -> None:
        """Bring the file up to date with memory; not synced, as for the offset index."""
        if self._timestamps is None:
            return
        start = self._saved
        content = b"".join(map(ENTRY.pack, self._timestamps[start:], self._offsets[start:]))
        save_entries(self.path, content, start * ENTRY_SIZE, self._disk)
        self._saved = len(self._timestamps)

    def unpin(self) -> None:
        self.pinned = False
        if self._timestamps is not None:
            RESIDENT_INDEXES.admit(self, len(self._timestamps) * ENTRY_SIZE)
