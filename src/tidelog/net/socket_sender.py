"""Sends the replies of one connection past its transport, where that writes them to a plain socket as they are.

Bytes go to the socket itself, without the transport's own queue, and large regions of files with `sendfile`. What the
socket does not take is the transport's, and so is everything behind it until the transport has nothing left.
"""

from __future__ import annotations

import asyncio
import socket

from tidelog.net.direct import DirectSender
from tidelog.net.outbox import Outbox
from tidelog.net.outgoing import Outgoing
from tidelog.net.peer import Peer
from tidelog.net.regions import is_large_region, join_between_regions
from tidelog.net.reply import Part
from tidelog.net.transport_sender import TransportSender


class SocketSender(TransportSender):
    __slots__ = ("_direct", "_is_buffered", "_socket")

    def __init__(
        self,
        peer: Peer,
        transport: asyncio.Transport,
        outgoing: Outgoing,
        outbox: Outbox,
        plain_socket: socket.socket,
    ) -> None:
        """`plain_socket` is what the transport works on. The event loop closes it with the transport, so that a
        descriptor that was reused is never written to."""
        super().__init__(peer, transport, outgoing, outbox)
        self._socket = plain_socket
        self._is_buffered = False
        """The socket was full: the transport holds bytes, and what follows has to go behind them."""
        self._direct: DirectSender | None = None
        """Made when the first large region is sent; busy while the socket is full of one."""

    @property
    def is_busy(self) -> bool:
        return bool(self._outgoing.parts) or (self._direct is not None and self._direct.is_busy)

    def close(self) -> None:
        super().close()
        if self._direct is not None:
            self._direct.close()

    def _write(self, data: bytes) -> None:
        if self._is_buffered and self._transport.get_write_buffer_size() == 0:
            self._is_buffered = False
        if not self._is_buffered:
            try:
                sent = self._socket.send(data)
            except OSError:
                # Full, or the peer is gone: the transport will see the same, and knows what to do then.
                sent = 0
            if sent == len(data):
                return
            self._is_buffered = True
            data = data[sent:]
        self._transport.write(data)

    def _write_chunk(self, parts: list[Part]) -> None:
        self._is_buffered = True
        super()._write_chunk(parts)

    def _send_regions(self) -> None:
        if self._transport.get_write_buffer_size() == 0 and any(map(is_large_region, self._outgoing.parts)):
            self._send_directly()
        else:
            super()._send_regions()

    def _send_directly(self) -> None:
        """A full socket is reported as transports report it, to the protocol: `resume_writing` goes on from there."""
        protocol = self._transport.get_protocol()
        assert isinstance(protocol, asyncio.BufferedProtocol)
        if self._direct is None:
            self._direct = DirectSender(self._socket.fileno(), protocol.resume_writing, self._failed)
        if not self._direct.send(join_between_regions(self._outgoing.take_parts())):
            protocol.pause_writing()

    def _failed(self, error: OSError) -> None:
        self._transport.abort()
