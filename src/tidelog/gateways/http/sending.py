"""Answers on their way out: as fast as the client takes them, and no faster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from tidelog.gateways.http.messages import Answer, Request, Response, Stream

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"


class Sender:
    """The sending side of one connection."""

    __slots__ = ("_is_lost", "_room", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
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
        self._transport.write(_CONTINUE)

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
        self._transport.write(head if request.method == "HEAD" else head + body)

    async def _send_stream(self, request: Request, stream: Stream, headers: Mapping[str, str]) -> None:
        """In chunks; to a client of HTTP/1.0 until the connection ends."""
        is_chunked = request.version == "1.1"
        if not is_chunked:
            request.be_last()
        head = _encode_head(request, stream, headers, "Transfer-Encoding: chunked\r\n" if is_chunked else "")
        self._transport.write(head)
        parts = stream.parts
        try:
            if request.method == "HEAD":
                return
            async for part in parts:
                if part:
                    self._transport.write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
                await self._has_room()
        finally:
            close = getattr(parts, "aclose", None)
            if close is not None:
                await close()
        if is_chunked:
            self._transport.write(_LAST_CHUNK)

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
