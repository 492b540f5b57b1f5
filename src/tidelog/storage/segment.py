"""One segment of a log: a file of batches and the three indexes that find things in it.

The last segment of a log is active: it alone is appended to, and its indexes stay in memory. All others are closed
and never change. A segment gets its file descriptor and its indexes when they are first needed, not when the log opens.
An index that is missing or does not fit is rebuilt from the batches on the way; nothing a reader sees depends on it.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, CorruptBatch, decode_header
from tidelog.storage.errors import CorruptIndex, CorruptLog
from tidelog.storage.files import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    RESIDENT_FILES,
    RESIDENT_INDEXES,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_stem,
    remove_if_present,
)
from tidelog.storage.offset_index import ENTRY as INDEX_ENTRY
from tidelog.storage.offset_index import UNSAVED_ENTRIES_MAX, OffsetIndex, read_last_entry
from tidelog.storage.scan import SegmentScan
from tidelog.storage.segment_file import READ_WRITE, READ_WRITE_NEW, SegmentFile
from tidelog.storage.time_index import TimeIndex
from tidelog.storage.txn_index import TxnIndex

if TYPE_CHECKING:
    from tidelog.codec.buffers import Buffer
    from tidelog.runtime.disk import Folder

UNKNOWN: Final = -2
"""A timestamp that was not looked up yet; -1 is "none"."""
NEVER: Final = 2**63
_WINDOW_BYTES: Final = 4096
"""Read at once while hopping from header to header: small batches lie several to a window."""
_WALK_BYTES_SUSPICIOUS: Final = 1024 * 1024
_WALK_HOPS_SUSPICIOUS: Final = 8
"""A lookup that walks further than both found an index that lacks entries."""
_HOP: Final = Struct(">qiibIhi")
"""The head of a batch up to the last offset delta."""

logger = logging.getLogger("tidelog.storage")


class Segment:
    """`size` counts the bytes that belong to the log; a longer file (a failed write) is overwritten from there."""

    __slots__ = (
        "_last_batch",
        "_last_offset",
        "base_offset",
        "bytes_max",
        "bytes_since_index_entry",
        "created_ms",
        "entries_max",
        "file",
        "first_timestamp",
        "folder",
        "index_interval_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "recently_used",
        "roll_at_ms",
        "roll_timestamp",
        "size",
        "suffix",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        folder: Folder,
        base_offset: int,
        *,
        size: int = 0,
        created_ms: int = 0,
        suffix: str = "",
        fresh: bool = False,
    ) -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.suffix = suffix
        self.size = size
        self.created_ms = created_ms
        self.file: SegmentFile | None = None
        self.recently_used = False
        self.bytes_since_index_entry = 0
        self.index_interval_bytes = 4096
        self.max_timestamp = -1 if fresh else UNKNOWN
        self.max_timestamp_offset = base_offset
        self.first_timestamp = UNKNOWN
        # What an append compares with to know that the segment takes it. Zero until `prepare_append`.
        self.bytes_max = 0
        self.entries_max = NEVER
        """Index entries; reaching it sets `bytes_max` to 0."""
        self.roll_timestamp = NEVER
        self.roll_at_ms = NEVER
        self._last_batch: tuple[int, int, int] | None = None
        """The batch appended last (position, base offset, size): readers at the end of the log need no lookup."""
        self._last_offset = -1
        """Its last offset."""
        disk = folder.disk
        self.offset_index = OffsetIndex(
            self._path(OFFSET_INDEX_SUFFIX), base_offset, pinned=fresh, fresh=fresh, disk=disk
        )
        self.time_index = TimeIndex(self._path(TIME_INDEX_SUFFIX), base_offset, pinned=fresh, fresh=fresh, disk=disk)
        self.txn_index = TxnIndex(self._path(TXN_INDEX_SUFFIX), base_offset, fresh=fresh, disk=disk)

    @classmethod
    def create(
        cls, folder: Folder, base_offset: int, now_ms: int, *, suffix: str = "", reserved_bytes: int = 0
    ) -> Segment:
        """An empty segment with an empty log file; whatever a crash left under these names is gone."""
        segment = cls(folder, base_offset, created_ms=now_ms, suffix=suffix, fresh=True)
        segment.create_files(reserved_bytes)
        return segment

    def create_files(self, reserved_bytes: int = 0) -> None:
        for kind in SEGMENT_SUFFIXES[1:]:
            remove_if_present(self._path(kind))
        self.file = SegmentFile(self.path, READ_WRITE_NEW, self.folder.disk)
        RESIDENT_FILES.admit(self)
        if reserved_bytes:
            self.file.reserve(reserved_bytes)

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}, {self.size} bytes)"

    def _path(self, kind: str) -> str:
        return f"{self.folder.path}/{file_stem(self.base_offset)}{kind}{self.suffix}"

    @property
    def path(self) -> str:
        """Of the log file."""
        return self._path(LOG_SUFFIX)

    # -- the file ------------------------------------------------------------------------------------------------

    def open_file(self) -> SegmentFile:
        self.recently_used = True
        file = self.file
        if file is None:
            file = self.file = SegmentFile(self.path, READ_WRITE, self.folder.disk)
            RESIDENT_FILES.admit(self)
        return file

    def evict(self) -> None:
        """Let go of the file descriptor; regions that were handed out keep theirs."""
        self.file = None

    def release(self) -> None:
        """Let go of everything that is held open or in memory and can be had again."""
        RESIDENT_FILES.discard(self)
        self.file = None
        for index in (self.offset_index, self.time_index):
            RESIDENT_INDEXES.discard(index)
            index.pinned = False
            index.evict()

    def move_to(self, suffix: str) -> None:
        """Give the files another suffix."""
        kept = [self._path(kind) for kind in SEGMENT_SUFFIXES]
        self.suffix = suffix
        # The log file goes last: where it is, the segment is.
        for kind, old in list(zip(SEGMENT_SUFFIXES, kept, strict=True))[::-1]:
            try:
                os.replace(old, self._path(kind))
            except FileNotFoundError:
                if kind == LOG_SUFFIX:
                    raise
        self.offset_index.path = self._path(OFFSET_INDEX_SUFFIX)
        self.time_index.path = self._path(TIME_INDEX_SUFFIX)
        self.txn_index.path = self._path(TXN_INDEX_SUFFIX)

    def retire(self) -> list[str]:
        """Rename the files so that no start takes them for a segment; their new names. The log file goes first, so that
        a crash leaves no half a segment."""
        self.release()
        retired: list[str] = []
        for kind in SEGMENT_SUFFIXES:
            path = self._path(kind)
            with suppress(FileNotFoundError):
                os.replace(path, path + DELETED_SUFFIX)
                retired.append(path + DELETED_SUFFIX)
        return retired

    def delete(self) -> None:
        for path in self.retire():
            remove_if_present(path)

    # -- appending -----------------------------------------------------------------------------------------------

    def index_batch(self, base_offset: int, last_offset: int, position: int, size: int, max_timestamp: int) -> None:
        """Account for a batch that now lies at `position`, which is where the segment ended."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_index_entry > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_index_entry = size
            if len(self.offset_index) >= self.entries_max:
                self.bytes_max = 0
            if self.offset_index.unsaved > UNSAVED_ENTRIES_MAX:
                self.save_indexes()
        else:
            self.bytes_since_index_entry += size
        self.size = position + size
        self._last_batch = (position, base_offset, size)
        self._last_offset = last_offset

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """Write a batch as it is behind the last one; for segments that are built aside (compaction), OSError when the
        disk refuses."""
        self.open_file().write(batch, self.size)
        self.index_header(self.size, header)

    def cut_failed_write(self) -> None:
        """Make the file as long as the segment says it is, if a failed write could not be undone at the time."""
        if self.file is not None and self.file.size_bytes() != self.size:
            self.file.truncate(self.size)

    def prepare_append(self) -> None:
        """Load what appends need; once per open, or after the segment became active again."""
        self.offset_index.pinned = self.time_index.pinned = True
        self.load_offset_index()
        self.load_time_index()
        self.largest_timestamp()
        self.bytes_since_index_entry = self.size - self.offset_index.last_entry()[1]
        if self.size and self.first_timestamp == UNKNOWN:
            self.first_timestamp = self._read_first_timestamp()

    def save_indexes(self) -> None:
        """Write the indexes behind memory to their files; a full disk only postpones that."""
        try:
            self.offset_index.save()
            self.time_index.save()
            self.txn_index.save()
        except OSError as error:
            logger.warning("cannot write the indexes of %s yet: %s", self.path, error)

    def close_indexes(self) -> None:
        """The segment is complete (or the log closes): the last entry of its time index says its largest timestamp."""
        if self.max_timestamp >= 0 and self.size:
            self.load_time_index()
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.save_indexes()

    def become_closed(self) -> None:
        self.close_indexes()
        self.offset_index.unpin()
        self.time_index.unpin()
        self._last_batch = None
        self.bytes_max = 0

    # -- indexes -------------------------------------------------------------------------------------------------

    def load_offset_index(self) -> OffsetIndex:
        try:
            self.offset_index.load(self.size)
        except CorruptIndex as problem:
            self._rebuild(self.offset_index.path, problem)
        return self.offset_index

    def load_time_index(self) -> TimeIndex:
        try:
            self.time_index.load()
        except CorruptIndex as problem:
            self._rebuild(self.time_index.path, problem)
        return self.time_index

    def _rebuild(self, path: str, problem: CorruptIndex) -> None:
        if self.size:
            logger.warning("rebuilding %s: %s", path, problem)
        self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Make offset and time index again from the batches."""
        closed = not self.offset_index.pinned
        self.begin_rebuild()
        scan = SegmentScan(self.open_file(), self.base_offset)
        size = self.size
        self.size = 0
        for position, header in scan:
            if position >= size:
                break
            self.index_header(position, header)
        if self.size != size:
            self.size = size
            raise CorruptLog(f"{self.path} is damaged at position {scan.valid_bytes}: {scan.problem}")
        if closed:
            self.become_closed()

    def begin_rebuild(self) -> None:
        """Forget what the indexes say; the caller goes on with `index_header` for every batch from the first."""
        for index in (self.offset_index, self.time_index):
            RESIDENT_INDEXES.discard(index)
            index.pinned = True
            index.reset()
        self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset
        self.first_timestamp = UNKNOWN
        self.bytes_since_index_entry = 0
        self._last_batch = None

    def index_header(self, position: int, header: BatchHeader) -> None:
        if position == 0:
            self.first_timestamp = header.max_timestamp
        self.index_batch(
            header.base_offset,
            header.base_offset + header.last_offset_delta,
            position,
            header.batch_length + LOG_OVERHEAD,
            header.max_timestamp,
        )

    def largest_timestamp(self) -> int:
        """Of all batches, -1 when there is none (an empty segment, or producers that set no time)."""
        if self.max_timestamp == UNKNOWN:
            try:
                timestamp, offset = self.time_index.last_entry()
                if timestamp < max((header.max_timestamp for _, header in self._scan_tail()), default=-1):
                    raise CorruptIndex("it lacks the largest timestamp")
                self.max_timestamp, self.max_timestamp_offset = timestamp, offset
            except CorruptIndex as problem:
                self._rebuild(self.time_index.path, problem)
        return self.max_timestamp

    def _read_first_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 when there is no batch or it has none."""
        if self.size == 0:
            return -1
        try:
            return decode_header(self.open_file().read(HEADER_SIZE, 0)).max_timestamp
        except CorruptBatch as error:
            raise CorruptLog(f"{self.path} is damaged at position 0: {error.message}") from None

    # -- finding -------------------------------------------------------------------------------------------------

    def locate(self, offset: int) -> tuple[int, int, int] | None:
        """Position, base offset and size of the first batch that reaches `offset`; None when none does."""
        last = self._last_batch
        if last is not None and offset >= last[1]:
            return last if offset <= self._last_offset else None
        try:
            self.offset_index.load(self.size)
            return self._walk(offset, suspicious=True)
        except CorruptIndex as problem:
            self._rebuild(self.offset_index.path, problem)
            return self._walk(offset, suspicious=False)

    def _walk(self, offset: int, *, suspicious: bool) -> tuple[int, int, int] | None:
        """From the nearest index entry, batch by batch. An index that does not fit the batches raises CorruptIndex."""
        entry_offset, start = self.offset_index.lookup(offset)
        file = self.open_file()
        size = self.size
        # With an intact index a walk ends within one interval and two batches.
        suspicious_at = start + 2 * self.index_interval_bytes + _WALK_BYTES_SUSPICIOUS if suspicious else size
        position = start
        hops = 0
        while position < size:
            window = file.read(min(_WINDOW_BYTES, size - position), position)
            at = 0
            usable = len(window) - _HOP.size
            while at <= usable:
                base_offset, length, _, magic, _, _, delta = _HOP.unpack_from(window, at)
                bad = (
                    magic != MAGIC
                    or length < HEADER_SIZE - LOG_OVERHEAD
                    or position + at + length + LOG_OVERHEAD > size
                )
                if position + at == start and start and (bad or base_offset + delta != entry_offset):
                    raise CorruptIndex(f"its entry ({entry_offset}, {start}) names no batch")
                if bad:
                    raise CorruptLog(f"{self.path} is damaged at position {position + at}: no batch where one was due")
                if base_offset + delta >= offset:
                    return position + at, base_offset, length + LOG_OVERHEAD
                at += length + LOG_OVERHEAD
                hops += 1
            if at == 0:
                raise CorruptLog(f"{self.path} is damaged at position {position}: {len(window)} bytes are no batch")
            position += at
            if position > suspicious_at and hops > _WALK_HOPS_SUSPICIOUS:
                raise CorruptIndex(f"it has no entry between {start} and {position}")
        return None

    def find_end(self) -> int:
        """The offset after the last batch, found from the last index entry on; CorruptLog when the end is damaged."""
        if self.size == 0:
            return self.base_offset
        scan = self._scan_tail()
        for _ in scan:
            pass
        if scan.problem is not None:
            raise CorruptLog(f"{self.path} is damaged at position {scan.valid_bytes}: {scan.problem}")
        return scan.next_offset

    def _scan_tail(self) -> SegmentScan:
        """The batches from the last index entry on; all of them when the index is no use."""
        try:
            entry = read_last_entry(self.offset_index.path, INDEX_ENTRY.size)
            start = INDEX_ENTRY.unpack(entry)[1] if entry else 0
        except (CorruptIndex, FileNotFoundError):
            start = 0
        return SegmentScan(self.open_file(), self.base_offset, start=start if start < self.size else 0)

    # -- cutting -------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int | None:
        """Cut off the first batch that reaches `offset` and all behind it; its base offset, None when nothing went.

        The caller makes the segment active again with `prepare_append`.
        """
        place = self.locate(offset)
        if place is None:
            return None
        position, base_offset, _ = place
        self.offset_index.pinned = self.time_index.pinned = True
        self.load_offset_index().truncate_to(base_offset)
        self.load_time_index().truncate_to(base_offset)
        self.txn_index.truncate_to(base_offset)
        self.open_file().truncate(position)
        self.size = position
        self._last_batch = None
        self.bytes_max = 0
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last_entry()
        if position == 0:
            self.first_timestamp = UNKNOWN
        self._refresh_largest_timestamp()
        return base_offset

    def _refresh_largest_timestamp(self) -> None:
        """Batches behind the last index entry may hold a larger timestamp than any entry."""
        start = self.offset_index.last_entry()[1]
        scan = SegmentScan(self.open_file(), self.base_offset, start=start)
        for position, header in scan:
            if position >= self.size:
                break
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.base_offset + header.last_offset_delta
