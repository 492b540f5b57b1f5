"""Replies of one connection that are ready to be sent: in order, in parts, each with its size in front.

The request queue puts them in and a sender takes them out. Nothing is sent here, and no region is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from librt.strings import BytesWriter, write_i32_be

from tidelog.net.file_region import REGION_BYTES_MIN
from tidelog.net.reply import Buffers, Part
from tidelog.telemetry.metrics import NodeMetrics


class Outgoing:
    __slots__ = ("_metrics", "has_region", "is_blocked", "is_large", "parts")

    def __init__(self, metrics: NodeMetrics) -> None:
        self._metrics = metrics
        self.parts: list[Part] = []
        """Regions in it are loaded only when there is room for them."""
        self.has_region = False
        """Whether any of it is a region; false for all but fetches."""
        self.is_large = False
        """Whether a reply with a large region is among it, which is sent without waiting for replies of others."""
        self.is_blocked = False
        """The peer does not read what was sent to it: nothing more is sent until it does."""

    def add(self, reply: bytes) -> None:
        """A whole reply in one piece."""
        size = len(reply)
        self._metrics.count_sent(size + 4)
        out = BytesWriter()
        write_i32_be(out, size)
        out.write(reply)
        self.parts.append(out.getvalue())

    def add_parts(self, reply: Buffers) -> int:
        """A reply in parts; returns its size."""
        size = 0
        has_region = False
        for part in reply:
            if isinstance(part, (bytes, bytearray, memoryview)):
                size += len(part)
            else:
                size += part.size
                has_region = True
        self._metrics.count_sent(size + 4)
        prefix = BytesWriter()
        write_i32_be(prefix, size)
        self.parts.append(prefix.getvalue())
        self.parts.extend(reply)
        if has_region:
            self.has_region = True
            if size >= REGION_BYTES_MIN:
                self.is_large = True
        return size

    def take_bytes(self) -> bytes:
        """Everything, as one string of bytes; there must be something, and no region."""
        parts = self.parts
        self.parts = []
        return cast("bytes", parts[0]) if len(parts) == 1 else b"".join(cast("Iterable[bytes]", parts))

    def take_parts(self) -> list[Part]:
        """Everything, when some of it is a region."""
        parts = self.parts
        self.clear()
        return parts

    def put_back(self, parts: list[Part]) -> None:
        """What the peer did not take any more, of what was taken last."""
        assert not self.parts, "nothing is added while something is sent"
        self.parts = parts
        self.has_region = True

    def clear(self) -> None:
        self.parts = []
        self.has_region = self.is_large = False

    def block(self) -> None:
        self.is_blocked = True

    def unblock(self) -> None:
        self.is_blocked = False
