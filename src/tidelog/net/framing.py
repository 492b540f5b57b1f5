"""Cuts a byte stream into frames: a 4-byte size, then that many bytes.

Nothing is allocated for an announced size: a frame is joined from the chunks that really arrived, so a peer that
announces 100 MB and sends ten bytes costs ten bytes. A frame is copied at most once on its way here.
"""

from __future__ import annotations

from struct import Struct

from tidelog.model import limits

_SIZE = Struct(">i")

Frame = tuple[bytes, int]
"""A buffer that ends where the frame ends, and the position in it where the frame's content starts."""


class FrameError(Exception):
    """The stream cannot be followed any further."""


class FrameBuffer:
    """The incomplete tail of one connection's stream."""

    __slots__ = ("_chunks", "_frame_bytes_max", "_needed_bytes", "buffered_bytes")

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._chunks: list[bytes] = []
        self.buffered_bytes = 0
        """Bytes held in incomplete frames."""
        self._needed_bytes = 4
        """How many bytes must be buffered before the next step: a frame's size (4), then the whole frame."""

    def feed(self, data: bytes) -> list[Frame]:
        """Takes the next chunk of the stream, returns the frames it completes."""
        frames: list[Frame] = []
        while self._chunks:
            missing_bytes = self._needed_bytes - self.buffered_bytes
            if len(data) < missing_bytes:
                if data:
                    self._chunks.append(data)
                    self.buffered_bytes += len(data)
                return frames
            self._chunks.append(data[:missing_bytes])
            data = data[missing_bytes:]
            whole = b"".join(self._chunks)
            if self._needed_bytes == 4:
                self._keep(whole, 4 + self._decode_size(whole, 0))
            else:
                self._chunks.clear()
                self.buffered_bytes = 0
                frames.append((whole, 4))
        if data:
            self._cut(data, frames)
        return frames

    def _cut(self, data: bytes, frames: list[Frame]) -> None:
        position = 0
        length = len(data)
        while length - position >= 4:
            end = position + 4 + self._decode_size(data, position)
            if end > length:
                self._keep(data[position:], end - position)
                return
            if end == length and position == 0:
                frames.append((data, 4))
            else:
                frames.append((data[position + 4 : end], 0))
            position = end
        if position < length:
            self._keep(data[position:], 4)

    def _decode_size(self, data: bytes, position: int) -> int:
        size: int = _SIZE.unpack_from(data, position)[0]
        if not limits.FRAME_BYTES_MIN <= size <= self._frame_bytes_max:
            raise FrameError(f"announced {size} bytes, allowed {limits.FRAME_BYTES_MIN} to {self._frame_bytes_max}")
        return size

    def _keep(self, tail: bytes, needed_bytes: int) -> None:
        self._chunks = [tail]
        self.buffered_bytes = len(tail)
        self._needed_bytes = needed_bytes
