"""The transaction index of a segment: the aborted transactions whose abort marker lies in it.

On disk, per entry and big endian: version 0 (2 bytes), producer id, first offset, last offset (the marker), and the
last stable offset once this transaction was over (8 bytes each). Readers of committed data get the entries that overlap
what they fetch. Aborts are rare: an entry is written at once, and the file exists only when there is one.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from tidelog.runtime.disk import DISK, Disk
from tidelog.storage.errors import CorruptIndex
from tidelog.storage.files import read_whole, remove_if_present
from tidelog.storage.offset_index import cut_entries, save_entries

ENTRY: Final = Struct(">hqqqq")
ENTRY_SIZE: Final = ENTRY.size
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Where the abort marker is."""
    last_stable_offset: int
    """The first offset that was still undecided after this marker."""


class TxnIndex:
    """`_entries` ascend by last offset; the first `_saved` are in the file."""

    __slots__ = ("_disk", "_entries", "_saved", "base_offset", "path")

    def __init__(self, path: str, base_offset: int, *, fresh: bool = False, disk: Disk = DISK) -> None:
        self.path = path
        self._disk = disk
        self.base_offset = base_offset
        self._entries: list[AbortedTransaction] | None = [] if fresh else None
        self._saved = 0

    def load(self) -> list[AbortedTransaction]:
        if self._entries is not None:
            return self._entries
        content = read_whole(self.path) or b""
        if len(content) % ENTRY_SIZE:
            raise CorruptIndex(f"its size {len(content)} is not a multiple of {ENTRY_SIZE}")
        entries: list[AbortedTransaction] = []
        for version, producer_id, first, last, stable in ENTRY.iter_unpack(content):
            if (
                version != VERSION
                or last < self.base_offset
                or first > last
                or (entries and last < entries[-1].last_offset)
            ):
                raise CorruptIndex(f"entry {len(entries)} is not an aborted transaction of this segment")
            entries.append(AbortedTransaction(producer_id, first, last, stable))
        self._saved = len(entries)
        self._entries = entries
        return entries

    def append(self, aborted: AbortedTransaction) -> None:
        self.load().append(aborted)

    def save(self) -> None:
        entries = self._entries
        if not entries or self._saved == len(entries):
            return
        content = b"".join(ENTRY.pack(VERSION, *entry) for entry in entries[self._saved :])
        save_entries(self.path, content, self._saved * ENTRY_SIZE, self._disk)
        self._saved = len(entries)

    def collect(self, first_offset: int, upper_offset: int, found: list[AbortedTransaction]) -> bool:
        """Add what overlaps [first_offset, upper_offset); True when no later segment can hold more of it."""
        for entry in self.load():
            if entry.last_offset >= first_offset and entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return True
        return False

    def truncate_to(self, offset: int) -> None:
        """Forget aborts whose marker is at or above the offset."""
        entries = self.load()
        kept = [entry for entry in entries if entry.last_offset < offset]
        if len(kept) == len(entries):
            return
        self._entries = kept
        if self._saved > len(kept):
            self._saved = len(kept)
            cut_entries(self.path, len(kept) * ENTRY_SIZE)

    def reset(self) -> None:
        self._entries = []
        self._saved = 0
        remove_if_present(self.path)
