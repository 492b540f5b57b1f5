"""Cuts a byte stream into frames: a 4-byte size, then that many bytes.

The bytes of a large frame are received where they stay; small ones go through a scratch buffer that all connections
share, since they are taken out before the next connection reads. Memory follows what really arrived, not what was
announced: a large frame gets one of a few places that are there anyway (`net/places.py`), or a buffer that is never
more than GROWTH times the bytes that came.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from librt.strings import read_i32_be

from tidelog.codec.buffers import Buffer
from tidelog.model import limits
from tidelog.net.places import FramePlaces

SCRATCH_BYTES: Final = 256 * 1024
DIRECT_BYTES_MIN: Final = 16 * 1024
"""From this many missing bytes on, the rest of a frame is received in place instead of being copied there."""

FIRST_LOOK_BYTES: Final = 512
"""Behind a large frame another one is likely: its size is read first, then everything else where it stays."""

ALONE_BYTES_MAX: Final = 20 * 1024
"""Up to this many bytes may well be one request, whole and alone: what a client sends that waits for each answer."""

GROWTH: Final = 4

_SIZE: Final = Struct(">i")

Frame = tuple[Buffer, int]
"""A buffer that ends where the frame ends, and the position in it where the frame's content starts."""


class FrameError(Exception):
    """The stream cannot be followed any further."""


class FrameReader:
    """The incomplete tail of one connection's stream. `buffer`, fill some of it, `filled`, and so on."""

    __slots__ = (
        "_frame_bytes_max",
        "_frame_bytes_min",
        "_is_lent",
        "_place",
        "_placed_bytes",
        "_places",
        "_scratch",
        "_tail",
        "_wanted_bytes",
    )

    def __init__(
        self,
        scratch: memoryview,
        frame_bytes_max: int,
        frame_bytes_min: int = limits.FRAME_BYTES_MIN,
        places: FramePlaces | None = None,
    ) -> None:
        self._scratch = scratch
        self._frame_bytes_max = frame_bytes_max
        self._frame_bytes_min = frame_bytes_min
        self._places = places
        self._tail = b""
        """The start of a frame that is not worth a place of its own yet."""
        self._place: bytearray | None = None
        """Holds a large frame that is being received."""
        self._is_lent = False
        """Whether the last frame that was cut short by the end of the scratch buffer got a place that is lent."""
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
            return self._scratch[:FIRST_LOOK_BYTES] if self._is_lent else self._scratch
        if self._placed_bytes == len(place):
            grown = bytearray(min(self._wanted_bytes, GROWTH * len(place)))
            grown[: len(place)] = place
            place = self._place = grown
        return memoryview(place)[self._placed_bytes : self._wanted_bytes]

    def filled(self, byte_count: int) -> list[Frame]:
        """`byte_count` bytes were received into the buffer; returns the frames that they complete."""
        place = self._place
        if place is None:
            scratch = self._scratch
            if 4 <= byte_count <= ALONE_BYTES_MAX and not self._tail:
                data = scratch[:byte_count].tobytes()
                size = byte_count - 4
                if read_i32_be(data, 0) == size and self._frame_bytes_min <= size <= self._frame_bytes_max:
                    self._is_lent = False
                    return [(data, 4)]
            return self._cut(scratch[:byte_count])
        self._placed_bytes += byte_count
        if self._placed_bytes < self._wanted_bytes:
            return []
        self._place = None
        if self._places is None or not self._is_lent:
            return [(place, 4)]
        frame = memoryview(place)[: self._wanted_bytes]
        self._places.give_back(place)
        return [(frame, 4)]

    def close(self) -> None:
        """No more bytes will come."""
        if self._place is not None and self._is_lent and self._places is not None:
            self._places.give_back(self._place)
        self._place = None
        self._tail = b""

    def _cut(self, data: memoryview) -> list[Frame]:
        frames: list[Frame] = []
        position = 0
        if self._tail:
            tail, self._tail = self._tail, b""
            position = 4 + self._decode_size(tail, 0) - len(tail) if len(tail) >= 4 else len(data) + 1
            if position > len(data):
                data = memoryview(tail + data)
                position = 0
            else:
                frames.append((b"".join((tail, data[:position])), 4))
        length = len(data)
        while length - position >= 4:
            end = position + 4 + self._decode_size(data, position)
            if end > length:
                break
            frames.append((bytes(data[position + 4 : end]), 0))
            position = end
        else:
            end = length
        self._is_lent = False
        if end - length >= DIRECT_BYTES_MIN:
            self._find_place(data[position:], end - position)
        else:
            self._tail = bytes(data[position:])
        return frames

    def _find_place(self, start: memoryview, wanted_bytes: int) -> None:
        place = self._places.take(wanted_bytes) if self._places is not None else None
        if place is None:
            place = bytearray(start)
        else:
            self._is_lent = True
            memoryview(place)[: len(start)] = start
        self._place = place
        self._placed_bytes = len(start)
        self._wanted_bytes = wanted_bytes

    def _decode_size(self, data: Buffer, position: int) -> int:
        size: int = _SIZE.unpack_from(data, position)[0]
        if not self._frame_bytes_min <= size <= self._frame_bytes_max:
            raise FrameError(f"announced {size} bytes, allowed {self._frame_bytes_min} to {self._frame_bytes_max}")
        return size
