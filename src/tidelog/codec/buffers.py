"""The byte containers that every codec accepts without copying."""

from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

COPIED_BYTES_MAX: Final = 2048


def view_of(buffer: Buffer, start: int, end: int) -> bytes | memoryview:
    """A part of the buffer. Of a few bytes it is a copy, which costs a third of a view."""
    if isinstance(buffer, memoryview):
        return buffer[start:end]
    if isinstance(buffer, bytes) and end - start <= COPIED_BYTES_MAX:
        return buffer[start:end]
    return memoryview(buffer)[start:end]
