"""What a request is answered with: bytes now, bytes later, or nothing.

A small reply is one piece. A large one is a gather list, so that record bytes go from the file to the socket without
being joined; parts of it may be regions of a file that are read only when the socket has room (see `Region`): a peer
that does not read its responses then holds a few hundred kilobytes of this node's memory, however much it asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Region(Protocol):
    """Bytes that are fetched only when they can be sent."""

    size: int

    def load(self, start: int = 0, length: int | None = None) -> bytes:
        """Reads `length` bytes (default: all that follow) from `start`, counted from the start of the region."""
        ...


Part = bytes | bytearray | memoryview | Region
Buffers = list[Part]


class CloseConnection(Exception):
    """Raised by a handler: the peer broke the protocol (or asked for silence); close without an answer."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        """One of telemetry's CLOSE_REASONS."""
        self.detail = detail


class PendingReply:
    """An answer that is not there yet.

    Lighter than a Future on purpose: completing it writes to the socket in the same turn of the loop, which is what a
    long-polling consumer's latency is made of.
    """

    __slots__ = ("_callback", "buffers", "is_done", "on_abandoned", "overlaps")

    def __init__(self, *, overlaps: bool = False) -> None:
        self.buffers: Buffers | None = None
        """None after completion means: no response is owed."""
        self.is_done = False
        self.overlaps = overlaps
        """Whether later requests of the same connection may start before this one is answered. True for a produce
        that waits for its commit: its records are already in the log, so order cannot change any more."""
        self.on_abandoned: Callable[[], None] | None = None
        """Called when the connection goes away first, so that nothing goes on waiting for a connection that is gone."""
        self._callback: Callable[[PendingReply], None] | None = None

    def on_done(self, callback: Callable[[PendingReply], None]) -> None:
        self._callback = callback
        if self.is_done:
            callback(self)

    def complete(self, buffers: Buffers | None) -> None:
        assert not self.is_done, "a reply is completed once"
        self.buffers = buffers
        self.is_done = True
        if self._callback is not None:
            self._callback(self)


Reply = bytes | Buffers | PendingReply | None
"""Bytes: the whole response with its header. None: the request takes no answer (acks=0)."""
