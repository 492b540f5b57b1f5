"""One client connection: frames in, replies out in the order of the requests, memory bounded in both directions.

Back pressure is never a queue that grows: when too much is in flight, or the peer does not read its responses, the
socket is simply not read. A request starts when every earlier one of its connection is answered, except behind
replies that allow overlap (see PendingReply), which is the order Kafka guarantees. A few bytes can ask for a long
answer and one read can hold thousands of requests, so a connection has turns: after so many requests or bytes of
replies these are sent, and others are served before it goes on.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from tidelog.codec.buffers import Buffer
from tidelog.model import limits
from tidelog.net.direct import REGION_BYTES_MIN, DirectSender
from tidelog.net.framing import Frame, FrameError, FrameReader
from tidelog.net.outbox import Outbox
from tidelog.net.regions import Rest, is_large_region, join_between_regions, load_exactly
from tidelog.net.reply import Buffers, CloseConnection, Part, PendingReply, Reply

if TYPE_CHECKING:
    from tidelog.net.listener import Listener

_pack_size: Final = Struct(">i").pack

WRITE_CHUNK_BYTES: Final = 256 * 1024
"""How much of a file region is read at a time; also about what a stalled peer holds of this node's memory."""

Dispatch = Callable[["Connection", Buffer, int], Reply]


class Connection:
    """Has the methods of an asyncio.BufferedProtocol; the loop sees it through `net/loop_side.py`."""

    __slots__ = (
        "_answers",
        "_budget",
        "_close_reason",
        "_direct",
        "_dispatch",
        "_frames",
        "_has_region",
        "_held_bytes",
        "_held_bytes_max",
        "_held_reply_bytes",
        "_is_at_eof",
        "_is_buffered",
        "_is_closed",
        "_is_continued",
        "_is_in_outbox",
        "_is_reading",
        "_is_starting",
        "_is_write_paused",
        "_listener",
        "_metrics",
        "_outbox",
        "_outgoing",
        "_queued_frames",
        "_requests_max",
        "_socket",
        "_transport",
        "_turn_bytes",
        "caller",
        "client_software",
        "last_active_s",
        "listener_name",
        "on_lost",
        "peer_host",
        "peer_port",
        "was_heard",
    )

    def __init__(self, listener: Listener, dispatch: Dispatch, plain_socket: socket.socket | None) -> None:
        """`plain_socket` is what the transport works on, where bytes can be written to it as they are. Whoever closes
        the transport closes this object too, so that a descriptor that was reused is never written to."""
        self._listener = listener
        self._socket = plain_socket
        settings, shared = listener.settings, listener.shared
        self._budget = shared.budget
        self._metrics = shared.metrics
        self._dispatch = dispatch
        self._frames = FrameReader(shared.scratch, settings.frame_bytes_max, places=shared.places)
        self._queued_frames: deque[Frame] = deque()
        """Whole requests that wait for their turn."""
        self._answers: deque[tuple[PendingReply, int, int]] = deque()
        """Started but unanswered requests, oldest first, each with the bytes it holds of the budget, and those of its
        reply if that was there at once and only waits for its turn."""
        self._held_reply_bytes = 0
        """Sum of those replies."""
        self._turn_bytes = 0
        """Bytes of the replies that were put together since requests were last started."""
        self._is_starting = False
        """True while a request is started, which may complete an earlier one: what is queued behind it is not started
        inside of that, or it would be answered first."""
        self._is_continued = False
        """Whether the loop will come back to the queued requests by itself."""
        self._outbox: Outbox = shared.outbox
        self._is_in_outbox = False
        """Whether `send_now` will be called in this turn of the loop."""
        self._is_buffered = False
        """The socket was full: the transport holds bytes, and what follows has to go behind them."""
        self._outgoing: deque[Part] = deque()
        """What was not sent yet: regions are loaded only when there is room."""
        self._has_region = False
        """Whether any of it is a region; false for all but fetches."""
        self._direct: DirectSender | None = None
        """Made when the first large region is sent; busy while the socket is full of one."""
        self._held_bytes = 0
        """Bytes read and not yet answered (incomplete, queued and started requests), all charged to the budget."""
        self._held_bytes_max = settings.connection_bytes_max
        self._requests_max = settings.requests_per_connection_max
        self._is_reading = True
        self._is_at_eof = False
        self._is_write_paused = False
        self._is_closed = False
        self._close_reason = "peer"
        self._transport: asyncio.Transport
        self.listener_name = settings.name
        self.peer_host = ""
        self.peer_port = 0
        self.caller: object | None = None
        """What the dispatcher keeps about the peer."""
        self.client_software: tuple[str, str] | None = None
        """Name and version the client gave in ApiVersions."""
        self.last_active_s = shared.monotonic_s()
        """As the listener knows, which looks at all connections once in a while."""
        self.was_heard = False
        """Since the listener last looked: a clock that every read asks would cost more than it is worth."""
        self.on_lost: Callable[[], None] | None = None
        """Called once when the connection is gone, for whoever watches the peer."""

    # -- asyncio.BufferedProtocol ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self.peer_port = peer[0], peer[1]
        self._transport.set_write_buffer_limits(high=WRITE_CHUNK_BYTES)
        self._listener.size_buffers(transport.get_extra_info("socket"))
        self._listener.connection_opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        self._outbox.forget(self)
        self._budget.forget(self)
        self._budget.release(self._held_bytes)
        self._held_bytes = 0
        self._queued_frames.clear()
        self._frames.close()
        self._outgoing.clear()
        if self._direct is not None:
            self._direct.close()
        answers, self._answers = self._answers, deque()
        for reply, _, _ in answers:
            if not reply.is_done and reply.on_abandoned is not None:
                reply.on_abandoned()
        self._listener.connection_closed(self, self._close_reason)
        if self.on_lost is not None:
            self.on_lost()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._metrics.bytes_in += nbytes
        self.was_heard = True
        self._budget.charge(nbytes)
        self._held_bytes += nbytes
        try:
            frames = self._frames.filled(nbytes)
        except FrameError as error:
            self.close("oversized", str(error))
            return
        if len(frames) == 1 and not (self._queued_frames or self._answers or self._is_write_paused or self._is_closed):
            # A client that waits for each answer: nothing is queued, and nobody has to wait for its turn.
            self._is_starting = True
            self._turn_bytes = 0
            frame, start = frames[0]
            self._start_request(frame, start)
            self._is_starting = False
            self._send()
        elif frames:
            self._queued_frames.extend(frames)
            self._start_requests()
        self._maybe_pause_reading()

    def eof_received(self) -> bool:
        """The peer will send no more: answer what it has asked and close."""
        self._is_at_eof = True
        return not self._is_answered

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self.send_now()
        if not self._is_write_paused:
            self._go_on()

    # -- requests --------------------------------------------------------------------------------------------------

    def _start_requests(self) -> None:
        """Starts what may start; replies that are there at once go out together, in one system call."""
        self._is_starting = True
        self._turn_bytes = 0
        requests_left = limits.REQUESTS_PER_TURN_MAX
        queued = self._queued_frames
        answers = self._answers
        while queued and not self._is_closed and not self._is_write_paused:
            if answers and (not answers[-1][0].overlaps or self._held_reply_bytes >= limits.REPLY_BYTES_PER_TURN_MAX):
                break
            if requests_left == 0 or self._turn_bytes >= limits.REPLY_BYTES_PER_TURN_MAX:
                self._continue_later()
                break
            requests_left -= 1
            frame, start = queued.popleft()
            self._start_request(frame, start)
        self._is_starting = False
        self._send()

    def _start_request(self, frame: Buffer, start: int) -> None:
        held_bytes = len(frame) - start + 4
        try:
            reply = self._dispatch(self, frame, start)
        except CloseConnection as error:
            self._release(held_bytes)
            self.close(error.reason, error.detail)
            return
        answers = self._answers
        if isinstance(reply, PendingReply):
            answers.append((reply, held_bytes, 0))
            reply.on_done(self._reply_done)
        elif answers:
            parts: Buffers | None = [reply] if isinstance(reply, bytes) else reply
            done = PendingReply(overlaps=True)
            done.complete(parts)
            reply_bytes = _size_of(parts) if parts is not None else 0
            self._held_reply_bytes += reply_bytes
            answers.append((done, held_bytes, reply_bytes))
        else:
            if isinstance(reply, bytes):
                size = len(reply)
                self._metrics.bytes_out += size + 4
                self._turn_bytes += size
                self._outgoing.append(_pack_size(size) + reply)
            elif reply is not None:
                self._enqueue(reply)
            self._release(held_bytes)

    def _continue_later(self) -> None:
        if not self._is_continued:
            self._is_continued = True
            asyncio.get_running_loop().call_soon(self._continue)

    def _continue(self) -> None:
        self._is_continued = False
        if not self._is_closed:
            self._go_on()

    def _go_on(self) -> None:
        self._start_requests()
        self._maybe_resume_reading()
        self._maybe_close_at_eof()

    def _reply_done(self, reply: PendingReply) -> None:
        if self._is_closed or not self._answers or not self._answers[0][0].is_done:
            return
        while self._answers and self._answers[0][0].is_done:
            oldest, held_bytes, reply_bytes = self._answers.popleft()
            if oldest.buffers is not None:
                self._enqueue(oldest.buffers)
                oldest.buffers = None
            self._held_reply_bytes -= reply_bytes
            self._release(held_bytes)
        if not self._is_starting:
            self._go_on()

    def _release(self, held_bytes: int) -> None:
        if not self._is_closed:
            self._held_bytes -= held_bytes
            self._budget.release(held_bytes)

    def _maybe_close_at_eof(self) -> None:
        if self._is_at_eof and self._is_answered and not self._is_closed:
            self._transport.close()

    # -- responses -------------------------------------------------------------------------------------------------

    def _enqueue(self, parts: Buffers) -> None:
        size = 0
        has_region = False
        for part in parts:
            if isinstance(part, (bytes, bytearray, memoryview)):
                size += len(part)
            else:
                size += part.size
                has_region = True
        self._metrics.bytes_out += size + 4
        self._turn_bytes += size
        self._outgoing.append(_pack_size(size))
        self._outgoing.extend(parts)
        if has_region:
            self._has_region = True
            if size >= REGION_BYTES_MIN:
                self.send_now()

    def _send(self) -> None:
        """Sends what is outgoing in this turn of the loop, together with the replies of others."""
        if self._outgoing and not (self._is_in_outbox or self._is_write_paused or self._is_closed):
            self._is_in_outbox = True
            self._outbox.add(self)

    def send_now(self) -> None:
        """Hands on what is outgoing until the socket has enough; `resume_writing` goes on from there."""
        self._is_in_outbox = False
        outgoing = self._outgoing
        if not outgoing or self._is_write_paused or self._is_closed:
            return
        if self._has_region:
            self._send_regions()
        elif len(outgoing) == 1:
            self._write(cast("bytes", outgoing.popleft()))
        else:
            data = b"".join(cast("Iterable[bytes]", outgoing))
            outgoing.clear()
            self._write(data)
        if self._is_at_eof:
            self._maybe_close_at_eof()

    def _write(self, data: bytes) -> None:
        """To the socket itself, past a transport that would put it off; what does not fit is the transport's."""
        if self._is_buffered and self._transport.get_write_buffer_size() == 0:
            self._is_buffered = False
        if self._socket is not None and not self._is_buffered:
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

    def _send_regions(self) -> None:
        outgoing = self._outgoing
        if self._transport.get_write_buffer_size() == 0 and any(map(is_large_region, outgoing)):
            self._send_directly()
            return
        ready: list[Part] = []
        try:
            while outgoing and not self._is_write_paused:
                part = outgoing.popleft()
                if isinstance(part, (bytes, bytearray, memoryview)):
                    ready.append(part)
                    continue
                if part.size > WRITE_CHUNK_BYTES:
                    outgoing.appendleft(Rest(part, WRITE_CHUNK_BYTES))
                ready.append(load_exactly(part, min(part.size, WRITE_CHUNK_BYTES)))
                if part.size >= REGION_BYTES_MIN:
                    self._is_buffered = True
                    self._transport.writelines(cast("Iterable[bytes]", ready))
                    ready.clear()
        except OSError as error:
            # The size is already on the wire, so there is no way left to say it in the response.
            outgoing.clear()
            self.close("error", f"a log could not be read: {error}")
            return
        if not outgoing:
            self._has_region = False
        if ready:
            self._write(b"".join(cast("Iterable[bytes]", ready)))

    def _send_directly(self) -> None:
        if self._direct is None:
            fd = self._transport.get_extra_info("socket").fileno()
            self._direct = DirectSender(fd, self.resume_writing, self._direct_failed)
        pieces = join_between_regions(self._outgoing)
        self._outgoing = deque()
        self._has_region = False
        if not self._direct.send(pieces):
            self.pause_writing()

    def sending_failed(self, error: Exception) -> None:
        """Nobody knows how much of a reply is out: the connection has no use any more."""
        if not self._is_closed:
            self._listener.report_close(self, "error", f"a reply could not be sent: {error}")
            self._transport.abort()

    def _direct_failed(self, error: OSError) -> None:
        if not self._is_closed:
            self._transport.abort()

    # -- flow control ----------------------------------------------------------------------------------------------

    def _maybe_pause_reading(self) -> None:
        if self._is_reading and not self._is_closed and self._must_pause():
            self._is_reading = False
            self._metrics.reads_paused += 1
            self._transport.pause_reading()
            if self._budget.is_spent:
                self._budget.wait(self)

    def _maybe_resume_reading(self) -> None:
        if not self._is_reading and not self._is_closed and not self._must_pause():
            self._is_reading = True
            self._budget.forget(self)
            self._transport.resume_reading()

    def _must_pause(self) -> bool:
        return (
            self._budget.is_spent
            or self._is_write_paused
            or self._held_bytes >= self._held_bytes_max
            or len(self._answers) + len(self._queued_frames) >= self._requests_max
        )

    def resume_from_budget(self) -> None:
        self._maybe_resume_reading()
        if not self._is_reading and not self._is_closed and self._budget.is_spent:
            self._budget.wait(self)

    @property
    def has_partial_frame(self) -> bool:
        return self._frames.buffered_bytes > 0

    @property
    def _is_sending(self) -> bool:
        """Something of an earlier response is not with the transport or the kernel yet."""
        return bool(self._outgoing) or (self._direct is not None and self._direct.is_busy)

    @property
    def _is_answered(self) -> bool:
        return not self._answers and not self._queued_frames and not self._is_sending

    @property
    def is_idle(self) -> bool:
        """Nothing of this connection is being worked on or sent."""
        return self._is_answered and not self._is_write_paused

    def close(self, reason: str, detail: str = "") -> None:
        """Closes after the replies that are ready; unanswered requests stay unanswered.

        `reason` is one of telemetry's CLOSE_REASONS, `detail` is for people.
        """
        if self._is_closed or self._transport.is_closing():
            return
        self.send_now()
        if self._is_closed or self._transport.is_closing():
            return
        self._close_reason = reason
        self._listener.report_close(self, reason, detail)
        self._queued_frames.clear()
        self._outgoing.clear()
        if self._direct is not None:
            self._direct.close()
        if self._is_write_paused:
            self._transport.abort()
        else:
            self._transport.close()


def _size_of(parts: Buffers) -> int:
    """Of the parts that are in memory; regions are not, before they are sent."""
    size = 0
    for part in parts:
        if isinstance(part, (bytes, bytearray, memoryview)):
            size += len(part)
    return size
