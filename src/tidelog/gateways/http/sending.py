"""Answers on their way out: as fast as the client takes them, and no faster."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from tidelog.gateways.http.messages import Answer, Request, Response, Stream
from tidelog.model import limits

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"


class Burst:
    """What all connections of the door have to send in one turn of the loop, sent together at its end: a client process
    that one answer has woken is awake for the others (ADR 20)."""

    __slots__ = ("_is_due", "_senders")

    def __init__(self) -> None:
        self._senders: list[Sender] = []
        self._is_due = False

    def add(self, sender: Sender) -> None:
        self._senders.append(sender)
        if len(self._senders) >= limits.REPLIES_PER_BURST_MAX:
            self._flush()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_due = False
        self._flush()

    def _flush(self) -> None:
        senders, self._senders = self._senders, []
        for sender in senders:
            sender.flush()


class Sender:
    """The sending side of one connection."""

    __slots__ = ("_burst", "_is_lost", "_room", "_socket", "_transport", "_unsent")

    def __init__(self, transport: asyncio.Transport, plain_socket: socket.socket | None, burst: Burst) -> None:
        """`plain_socket` is what the transport works on, where that sends bytes as they are."""
        self._transport = transport
        self._socket = plain_socket
        self._burst = burst
        self._unsent: list[bytes] = []
        """Of this turn of the loop."""
        self._room: asyncio.Future[None] | None = None
        """Set while the client reads slower than it is written to."""
        self._is_lost = False

    @property
    def is_held_up(self) -> bool:
        """The client does not take what it is sent."""
        return self._room is not None

    def hold_up(self) -> None:
        self._room = asyncio.get_running_loop().create_future()

    def go_on(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def lose(self) -> None:
        """The connection is gone: whoever waits for it learns so."""
        self._is_lost = True
        self.go_on()

    def say_continue(self) -> None:
        self._write(_CONTINUE)

    def _write(self, data: bytes) -> None:
        self._unsent.append(data)
        if len(self._unsent) == 1:
            # It may send at once, what was said just now included.
            self._burst.add(self)

    def flush(self) -> None:
        """Past the transport's own queue, where it is empty and the socket takes all of it."""
        if not self._unsent or self._is_lost:
            return
        data = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
        self._unsent = []
        if self._socket is not None and self._transport.get_write_buffer_size() == 0:
            try:
                sent = self._socket.send(data)
            except OSError:
                # Full, or the client is gone: the transport will see the same, and knows what to do then.
                sent = 0
            if sent == len(data):
                return
            data = data[sent:]
        self._transport.write(data)

    async def send(self, request: Request, answer: Answer, headers: Mapping[str, str]) -> None:
        """Returns when the client has room for more. Raises ConnectionResetError when it is gone, and what the parts of
        a stream raise: then the client must not take the answer for whole."""
        if isinstance(answer, Stream):
            await self._send_stream(request, answer, headers)
        else:
            self._send_whole(request, answer, headers)
        await self._has_room()

    def _send_whole(self, request: Request, response: Response, headers: Mapping[str, str]) -> None:
        body = response.body
        length = "" if response.status == 204 else f"Content-Length: {len(body)}\r\n"
        head = _encode_head(request, response, headers, length)
        self._write(head if request.method == "HEAD" else head + body)

    async def _send_stream(self, request: Request, stream: Stream, headers: Mapping[str, str]) -> None:
        """In chunks; to a client of HTTP/1.0 until the connection ends."""
        is_chunked = request.version == "1.1"
        if not is_chunked:
            request.be_last()
        head = _encode_head(request, stream, headers, "Transfer-Encoding: chunked\r\n" if is_chunked else "")
        self._write(head)
        parts = stream.parts
        try:
            if request.method == "HEAD":
                return
            async for part in parts:
                if part:
                    self._write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
                # While the client takes its time, nothing is held twice.
                del part
                await self._has_room()
        finally:
            close = getattr(parts, "aclose", None)
            if close is not None:
                await close()
        if is_chunked:
            self._write(_LAST_CHUNK)

    async def _has_room(self) -> None:
        if self._room is not None:
            await self._room
        if self._is_lost:
            raise ConnectionResetError


def _encode_head(request: Request, answer: Answer, headers: Mapping[str, str], length: str) -> bytes:
    lines = [length]
    if answer.content_type and answer.status != 204:
        lines.append(f"Content-Type: {answer.content_type}\r\n")
    if not request.is_kept_alive:
        lines.append("Connection: close\r\n")
    lines.extend([f"{name}: {value}\r\n" for name, value in headers.items()])
    if answer.headers:
        lines.extend([f"{name}: {value}\r\n" for name, value in answer.headers.items()])
    return _STATUS_LINES[answer.status] + "".join(lines).encode("latin-1") + b"\r\n"
