"""One client connection: frames in, replies out in the order of the requests, memory bounded in both directions.

Only wiring: frames are cut by `framing.py`, their order and turns are decided by `request_queue.py`, the socket is
read or left unread by `read_gate.py`, and replies are sent by `socket_sender.py`, or by `transport_sender.py` where the
transport does more than write bytes to a socket.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from tidelog.codec.buffers import Buffer
from tidelog.net.budget import BudgetShare
from tidelog.net.framing import FrameError, FrameReader
from tidelog.net.outgoing import Outgoing
from tidelog.net.peer import Peer
from tidelog.net.read_gate import ReadGate
from tidelog.net.reply import CloseConnection, PendingReply, Reply
from tidelog.net.request_queue import RequestQueue
from tidelog.net.shared import SharedByListeners
from tidelog.net.socket_sender import SocketSender
from tidelog.net.transport_sender import WRITE_CHUNK_BYTES, TransportSender

if TYPE_CHECKING:
    from tidelog.net.listener import Listener

Dispatch = Callable[["Connection", Buffer, int], Reply]


class Connection(Peer):
    """Has the methods of an asyncio.BufferedProtocol; the loop sees it through `net/loop_side.py`."""

    __slots__ = (
        "_close_reason",
        "_dispatch",
        "_frames",
        "_gate",
        "_listener",
        "_outgoing",
        "_plain_socket",
        "_queue",
        "_sender",
        "_shared",
        "_transport",
        "was_heard",
    )

    def __init__(self, listener: Listener, dispatch: Dispatch, plain_socket: socket.socket | None) -> None:
        """`plain_socket` is what the transport works on, if there is one."""
        settings = listener.settings
        super().__init__(settings.name)
        shared: SharedByListeners = listener.shared
        self._listener = listener
        self._shared = shared
        self._dispatch = dispatch
        self._plain_socket = plain_socket
        self._frames = FrameReader(shared.scratch, settings.frame_bytes_max, places=shared.places)
        self._outgoing = Outgoing(shared.metrics)
        share = BudgetShare(shared.budget, settings.connection_bytes_max)
        self._queue = RequestQueue(share, settings.requests_per_connection_max, self._outgoing)
        self._transport: asyncio.Transport
        self._gate: ReadGate
        self._sender: TransportSender
        self._close_reason = "peer"
        self.was_heard = False
        """Since the listener last looked: a clock that every read asks would cost more than it is worth."""

    # -- asyncio.BufferedProtocol ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = connected = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.came_from(peer[0], peer[1])
        connected.set_write_buffer_limits(high=WRITE_CHUNK_BYTES)
        self._gate = ReadGate(connected, self._queue, self._shared)
        outbox = self._shared.outbox
        if self._plain_socket is None or transport.get_extra_info("sslcontext") is not None:
            self._sender = TransportSender(self, connected, self._outgoing, outbox)
        else:
            self._sender = SocketSender(self, connected, self._outgoing, outbox, self._plain_socket)
        self._listener.size_buffers(transport.get_extra_info("socket"))
        self._listener.connection_opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._frames.close()
        self._gate.close()
        self._sender.close()
        self._queue.close()
        self._listener.connection_closed(self, self._close_reason)
        if self.on_lost is not None:
            self.on_lost()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.was_heard = True
        self._shared.metrics.count_received(nbytes)
        queue = self._queue
        queue.received(nbytes)
        try:
            frames = self._frames.filled(nbytes)
        except FrameError as error:
            self.close("oversized", str(error))
            return
        if len(frames) == 1 and queue.begin_alone():
            # A client that waits for each answer: its request passes the queue by.
            frame, start = frames[0]
            self._start_request(frame, start)
            queue.end_turn()
            self._sender.send_soon()
        elif frames:
            queue.add(frames)
            self._go_on(False)
        self._gate.maybe_pause()

    def eof_received(self) -> bool:
        """The peer will send no more: answer what it has asked and close."""
        self._gate.end()
        self._go_on(False)
        return not self._transport.is_closing()

    def pause_writing(self) -> None:
        self._outgoing.block()

    def resume_writing(self) -> None:
        self._outgoing.unblock()
        self._sender.send()
        if not self._outgoing.is_blocked:
            self._go_on(False)

    # -- requests --------------------------------------------------------------------------------------------------

    def _go_on(self, is_due: bool) -> None:
        """Starts what may start; replies that are there at once go out together, in one system call."""
        queue = self._queue
        if not queue.begin_turn(is_due):
            return
        request = queue.next_request()
        while request is not None:
            frame, start = request
            self._start_request(frame, start)
            request = queue.next_request()
        if queue.end_turn():
            asyncio.get_running_loop().call_soon(self._go_on, True)
        self._sender.send_soon()
        self._gate.maybe_resume()
        if self._gate.is_at_end:
            self._sender.send()
            if self.is_idle:
                self._transport.close()

    def _start_request(self, frame: Buffer, start: int) -> None:
        held_bytes = len(frame) - start + 4
        try:
            reply = self._dispatch(self, frame, start)
        except CloseConnection as error:
            self._queue.answer(None, held_bytes)
            self.close(error.reason, error.detail)
            return
        if isinstance(reply, PendingReply):
            self._queue.wait_for(reply, held_bytes)
            reply.on_done(self._reply_done)
        else:
            self._queue.answer(reply, held_bytes)
            if self._outgoing.is_large:
                self._sender.send()

    def _reply_done(self, reply: PendingReply) -> None:
        if self._queue.collect():
            if self._outgoing.is_large:
                self._sender.send()
            self._go_on(False)

    def mute(self) -> None:
        """Until `unmute` no request of this connection is started and its socket is not read; those that were started
        are answered."""
        self._queue.mute()
        self._gate.maybe_pause()

    def unmute(self) -> None:
        self._queue.unmute()
        self._go_on(False)
        # The turn of a request that unmutes its own connection does not look at the socket again.
        self._gate.maybe_resume()

    # -- the end ---------------------------------------------------------------------------------------------------

    @property
    def has_partial_frame(self) -> bool:
        return self._frames.buffered_bytes > 0

    @property
    def is_idle(self) -> bool:
        """Nothing of this connection is being worked on or sent."""
        return self._queue.is_empty and not self._sender.is_busy and not self._outgoing.is_blocked

    def close(self, reason: str, detail: str = "") -> None:
        if self._queue.is_closed or self._transport.is_closing():
            return
        self._sender.send()
        if self._transport.is_closing():
            return
        self._close_reason = reason
        self._listener.report_close(self, reason, detail)
        self._queue.drop_queued()
        self._sender.close()
        if self._outgoing.is_blocked:
            self._transport.abort()
        else:
            self._transport.close()
