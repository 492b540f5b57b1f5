"""Cuts a byte stream into frames: a 4-byte size, then that many bytes.

The bytes of a large frame are received where they stay; small ones go through a scratch buffer that all connections
share, since they are taken out before the next connection reads. Memory follows what really arrived, not what was
announced: the place of a large frame is never more than GROWTH times the bytes that came.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from tidelog.model import limits

SCRATCH_BYTES: Final = 256 * 1024
DIRECT_BYTES_MIN: Final = 16 * 1024
"""From this many missing bytes on, the rest of a frame is received in place instead of being copied there."""

GROWTH: Final = 4

_SIZE: Final = Struct(">i")

Frame = tuple[bytes | bytearray, int]
"""A buffer that ends where the frame ends, and the position in it where the frame's content starts."""


class FrameError(Exception):
    """The stream cannot be followed any further."""


class FrameReader:
    """The incomplete tail of one connection's stream. `buffer`, fill some of it, `filled`, and so on."""

    __slots__ = (
        "_frame_bytes_max",
        "_frame_bytes_min",
        "_place",
        "_placed_bytes",
        "_scratch",
        "_tail",
        "_wanted_bytes",
    )

    def __init__(
        self, scratch: memoryview, frame_bytes_max: int, frame_bytes_min: int = limits.FRAME_BYTES_MIN
    ) -> None:
        self._scratch = scratch
        self._frame_bytes_max = frame_bytes_max
        self._frame_bytes_min = frame_bytes_min
        self._tail = b""
        """The start of a frame that is not worth a place of its own yet."""
        self._place: bytearray | None = None
        """A large frame that is being received."""
        self._placed_bytes = 0
        self._wanted_bytes = 0
        """Size of the large frame when it is whole."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes held of incomplete frames."""
        return len(self._tail) if self._place is None else self._placed_bytes

    def buffer(self) -> memoryview:
        """Where the next bytes are to be put."""
        place = self._place
        if place is None:
            return self._scratch
        if self._placed_bytes == len(place):
            grown = bytearray(min(self._wanted_bytes, GROWTH * len(place)))
            grown[: len(place)] = place
            place = self._place = grown
        return memoryview(place)[self._placed_bytes :]

    def filled(self, byte_count: int) -> list[Frame]:
        """So many bytes were put there; returns the frames they complete."""
        if self._place is None:
            data = bytes(self._scratch[:byte_count])
            return self._cut(self._tail + data if self._tail else data)
        self._placed_bytes += byte_count
        if self._placed_bytes < self._wanted_bytes:
            return []
        frame = self._place
        self._place = None
        return [(frame, 4)]

    def _cut(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        position = 0
        length = len(data)
        while length - position >= 4:
            end = position + 4 + self._decode_size(data, position)
            if end > length:
                break
            frames.append((data, 4) if position == 0 and end == length else (data[position + 4 : end], 0))
            position = end
        else:
            end = length
        self._tail = data[position:]
        if end - length >= DIRECT_BYTES_MIN:
            self._place = bytearray(self._tail)
            self._placed_bytes = len(self._tail)
            self._wanted_bytes = end - position
            self._tail = b""
        return frames

    def _decode_size(self, data: bytes, position: int) -> int:
        size: int = _SIZE.unpack_from(data, position)[0]
        if not self._frame_bytes_min <= size <= self._frame_bytes_max:
            raise FrameError(f"announced {size} bytes, allowed {self._frame_bytes_min} to {self._frame_bytes_max}")
        return size
