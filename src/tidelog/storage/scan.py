"""Walking through the batches of a segment file from a position on, and saying where they stop being batches.

Used where every batch must be seen: recovery, rebuilding indexes, replaying producers, compaction, dumps. The file is
mapped, so only the headers (and what is asked for) are touched. The file must not shrink during the walk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, CorruptBatch, decode_header, verify_crc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.storage.segment_file import SegmentFile

RELATIVE_OFFSET_MAX: Final = 2**31 - 1
"""How far an offset may be above its segment's base: indexes keep four bytes, and Kafka reads them as signed."""


class SegmentScan:
    """Iterate to get (position, header) of each good batch; afterwards `problem` says what ended it, None for the end
    of the file, and `valid_bytes` and `next_offset` say how far the good ones go.
    """

    def __init__(self, file: SegmentFile, base_offset: int, *, start: int = 0, verify_from: int | None = None) -> None:
        """`verify_from`: batches that reach this offset or beyond must also have the right checksum."""
        self.base_offset = base_offset
        self.valid_bytes = start
        self.next_offset = base_offset
        self.problem: str | None = None
        self._verify_from = verify_from
        self._view = file.map()

    @property
    def file_size(self) -> int:
        return len(self._view)

    def batch(self, position: int, header: BatchHeader) -> memoryview:
        """The bytes of a batch; must not outlive the scan by much, it holds the mapping."""
        return self._view[position : position + header.batch_length + LOG_OVERHEAD]

    def __iter__(self) -> Iterator[tuple[int, BatchHeader]]:
        view = self._view
        size = len(view)
        position = self.valid_bytes
        while position < size:
            if size - position < HEADER_SIZE:
                self.problem = f"{size - position} bytes are too few for a batch"
                return
            try:
                header = decode_header(view, position)
            except CorruptBatch as error:
                self.problem = error.message
                return
            self.problem = self._find_problem(position, header)
            if self.problem is not None:
                return
            # What was seen counts before it is handed out, so that a caller may stop in between.
            self.next_offset = header.base_offset + header.last_offset_delta + 1
            self.valid_bytes = position + header.batch_length + LOG_OVERHEAD
            yield position, header
            position = self.valid_bytes

    def _find_problem(self, position: int, header: BatchHeader) -> str | None:
        end = position + header.batch_length + LOG_OVERHEAD
        if end > len(self._view):
            return f"a batch of {end - position} bytes is cut short at {len(self._view) - position}"
        if header.last_offset_delta < 0 or header.record_count < 0:
            return f"a batch with last offset delta {header.last_offset_delta} and {header.record_count} records"
        if header.base_offset < self.next_offset:
            return f"a batch at offset {header.base_offset} where {self.next_offset} or more was due"
        if header.base_offset + header.last_offset_delta - self.base_offset > RELATIVE_OFFSET_MAX:
            return f"a batch at offset {header.base_offset} is too far from the segment's base"
        if (
            self._verify_from is not None
            and header.base_offset + header.last_offset_delta >= self._verify_from
            and not verify_crc(self._view, position, header)
        ):
            return "the checksum of a batch is wrong"
        return None
