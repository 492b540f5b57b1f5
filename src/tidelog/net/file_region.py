"""Stretches of files on their way into a response: what may go from the page cache to a socket without a copy."""

from __future__ import annotations

from typing import Final

REGION_BYTES_MIN: Final = 32 * 1024
"""Below this, one copy is cheaper than one more system call."""


class FileRegion:
    """`size` bytes of a file. A `Region` that is none of these is loaded, whatever its size."""

    __slots__ = ("size",)

    size: int

    def load(self, start: int = 0, length: int | None = None) -> bytes:
        """Reads `length` bytes (default: all that follow) from `start`, counted from the start of the region."""
        raise NotImplementedError

    def send_to(self, socket_fd: int, start: int) -> int:
        """Hands the bytes from `start` on to a plain socket; how many it took. Zero: the file ends before the region.

        OSError as from the socket: BlockingIOError when it is full.
        """
        raise NotImplementedError
