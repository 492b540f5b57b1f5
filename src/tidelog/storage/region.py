"""A stretch of a log file: what a read answers with. No bytes move until they are loaded or sent.

The region keeps its file open, so it stays readable when the segment is deleted or compacted away in the meantime.
"""

from __future__ import annotations

from typing import Final

from tidelog.net.file_region import FileRegion
from tidelog.storage.segment_file import SegmentFile


class LogRegion(FileRegion):
    """`size` bytes of `file` from `position`: batches as they will be sent, the last one possibly cut short."""

    __slots__ = ("file", "is_cut", "position", "segment_base_offset")

    def __init__(
        self, file: SegmentFile | None, position: int, size: int, segment_base_offset: int, is_cut: bool = False
    ) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.segment_base_offset = segment_base_offset
        self.is_cut = is_cut
        """Whether the reader would get more out of this file if it took more at a time."""

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"LogRegion(segment={self.segment_base_offset}, position={self.position}, size={self.size})"

    def load(self, start: int = 0, length: int | None = None) -> bytes:
        """`length` bytes (default: the rest) from `start` of the region, out of the page cache or from the disk.

        Fewer only if the log was truncated since.
        """
        if self.file is None:
            return b""
        return self.file.read(self.size - start if length is None else length, self.position + start)

    def send_to(self, socket_fd: int, start: int) -> int:
        """From the page cache to the socket, without a copy into this process."""
        if self.file is None:
            return 0
        return self.file.send_to(socket_fd, self.position + start, self.size - start)


EMPTY_REGION: Final = LogRegion(None, 0, 0, 0)
