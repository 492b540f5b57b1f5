"""Sends the replies of one connection through its transport, whatever that does with them: encrypt, simulate.

Regions of files are read in chunks, each when the transport has room for it: a peer that does not read its responses
holds no more of this node's memory, however much it asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, cast

from tidelog.net.file_region import REGION_BYTES_MIN
from tidelog.net.outbox import Outbox
from tidelog.net.outgoing import Outgoing
from tidelog.net.peer import Peer
from tidelog.net.regions import Rest, load_exactly
from tidelog.net.reply import Part

WRITE_CHUNK_BYTES: Final = 256 * 1024
"""How much of a file region is read at a time; also about what a stalled peer holds of this node's memory."""


class TransportSender:
    __slots__ = ("_is_in_outbox", "_outbox", "_outgoing", "_peer", "_transport")

    def __init__(self, peer: Peer, transport: asyncio.Transport, outgoing: Outgoing, outbox: Outbox) -> None:
        """`peer` is closed when a reply cannot be sent."""
        self._peer = peer
        self._transport = transport
        self._outgoing = outgoing
        self._outbox = outbox
        self._is_in_outbox = False
        """Whether `send` will be called in this turn of the loop."""

    @property
    def is_busy(self) -> bool:
        """Something of an earlier reply is not with the transport or the kernel yet."""
        return bool(self._outgoing.parts)

    def send_soon(self) -> None:
        """Sends what is outgoing in this turn of the loop, together with the replies of others."""
        outgoing = self._outgoing
        if outgoing.parts and not (self._is_in_outbox or outgoing.is_blocked):
            self._is_in_outbox = True
            self._outbox.add(self)

    def send(self) -> None:
        """Hands on what is outgoing until the peer has enough; it is called again when the peer takes more."""
        self._is_in_outbox = False
        outgoing = self._outgoing
        if not outgoing.parts or outgoing.is_blocked:
            return
        try:
            if outgoing.has_region:
                self._send_regions()
            else:
                self._write(outgoing.take_bytes())
        except Exception as error:
            # How much of a reply was sent is not known: the connection is of no use any more, and others go on.
            outgoing.clear()
            self._peer.close("error", f"a reply could not be sent: {error}")
            self._transport.abort()

    def close(self) -> None:
        """What is outgoing is not sent any more."""
        self._outgoing.clear()
        self._outbox.forget(self)

    def _write(self, data: bytes) -> None:
        self._transport.write(data)

    def _write_chunk(self, parts: list[Part]) -> None:
        self._transport.writelines(cast("Iterable[bytes]", parts))

    def _send_regions(self) -> None:
        outgoing = self._outgoing
        parts = outgoing.take_parts()
        ready: list[Part] = []
        at = 0
        try:
            while at < len(parts) and not outgoing.is_blocked:
                part = parts[at]
                if isinstance(part, (bytes, bytearray, memoryview)):
                    ready.append(part)
                    at += 1
                    continue
                ready.append(load_exactly(part, min(part.size, WRITE_CHUNK_BYTES)))
                if part.size > WRITE_CHUNK_BYTES:
                    parts[at] = Rest(part, WRITE_CHUNK_BYTES)
                else:
                    at += 1
                if part.size >= REGION_BYTES_MIN:
                    self._write_chunk(ready)
                    ready.clear()
        except OSError as error:
            # The size is already on the wire, so there is no way left to say it in the response.
            self._peer.close("error", f"a log could not be read: {error}")
            return
        if at < len(parts):
            outgoing.put_back(parts[at:])
        if ready:
            self._write(b"".join(cast("Iterable[bytes]", ready)))
