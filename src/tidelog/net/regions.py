"""Pieces of log files on their way into a response: how they are cut, loaded, and joined with what is around them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import cast

from tidelog.net.direct import Piece
from tidelog.net.file_region import REGION_BYTES_MIN, FileRegion
from tidelog.net.reply import Part, Region


def load_exactly(region: Region, length: int) -> bytes:
    data = region.load(0, length)
    if len(data) != length:
        raise OSError(f"the log ends {length - len(data)} bytes before the region that was promised")
    return data


def join_between_regions(parts: Iterable[Part]) -> deque[Piece]:
    """As few pieces as possible: each is a system call."""
    pieces: deque[Piece] = deque()
    between: list[Part] = []
    for part in parts:
        if isinstance(part, (bytes, bytearray, memoryview)):
            between.append(part)
        else:
            if between:
                pieces.append(b"".join(cast("Iterable[bytes]", between)))
                between.clear()
            pieces.append(cast("FileRegion", part))
    if between:
        pieces.append(b"".join(cast("Iterable[bytes]", between)))
    return pieces


def is_large_region(part: Part) -> bool:
    """Whether it pays to send it with `sendfile`."""
    return isinstance(part, FileRegion) and part.size >= REGION_BYTES_MIN


class Rest:
    """What is left of a region after its first bytes were sent."""

    __slots__ = ("_region", "_skipped_bytes", "size")

    def __init__(self, region: Region, skipped_bytes: int) -> None:
        if isinstance(region, Rest):
            skipped_bytes += region._skipped_bytes
            region = region._region
        self._region: Region = region
        self._skipped_bytes: int = skipped_bytes
        self.size = region.size - skipped_bytes

    def load(self, start: int = 0, length: int | None = None) -> bytes:
        return self._region.load(self._skipped_bytes + start, self.size - start if length is None else length)
