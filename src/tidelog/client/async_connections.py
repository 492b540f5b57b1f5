"""The connections of an `AsyncSession`: a small client of HTTP/1.1 on asyncio's streams.

Not the other one's connections in threads: a request that is cancelled ends here at once, and a stream takes no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from tidelog.client.bounds import (
    ANSWER_BYTES_MAX,
    CONNECT_SECONDS_MAX,
    HEADERS_MAX,
    IDLE_SECONDS_MAX,
    PARALLEL_MAX,
    PART_BYTES,
)
from tidelog.client.calls import Answer, Request
from tidelog.client.exchange import Unreachable
from tidelog.client.nodes import Address


class ProtocolError(Exception):
    """The node's answer is not HTTP/1.1."""


_FAULTS: Final = (OSError, EOFError, ProtocolError, ValueError, asyncio.LimitOverrunError)
"""What the end of a connection or a wrong answer raises."""


class Connection:
    """One request at a time."""

    def __init__(self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._address = address
        self._reader = reader
        self._writer = writer
        self._headers: dict[str, str] = {}

    @property
    def is_quiet(self) -> bool:
        """Whether the node has not closed it."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    @property
    def will_close(self) -> bool:
        return self._headers.get("connection", "").lower() == "close"

    def close(self) -> None:
        self._writer.close()

    async def ask(self, request: Request) -> tuple[int, dict[str, str]]:
        lines = [
            f"{request.method} {request.path} HTTP/1.1",
            f"Host: {self._address}",
            *(f"{name}: {content}" for name, content in request.headers.items()),
        ]
        if request.method == "POST":
            lines.append(f"Content-Length: {len(request.body)}")
        self._writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body)
        await self._writer.drain()
        status = await self._read_status()
        while 100 <= status < 200:
            await self._read_headers()
            status = await self._read_status()
        self._headers = await self._read_headers()
        return status, self._headers

    async def _read_status(self) -> int:
        parts = (await self._reader.readuntil(b"\n")).split(maxsplit=2)
        if len(parts) < 2 or not parts[0].startswith(b"HTTP/1."):
            raise ProtocolError("did not answer in HTTP/1.1")
        return int(parts[1])

    async def _read_headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for _ in range(HEADERS_MAX + 1):
            line = (await self._reader.readuntil(b"\n")).decode("latin-1").strip()
            if not line:
                return headers
            name, _, content = line.partition(":")
            headers[name.strip().lower()] = content.strip()
        raise ProtocolError(f"answered with more than {HEADERS_MAX} headers")

    async def body(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in self.parts():
            size += len(part)
            if size > ANSWER_BYTES_MAX:
                raise ProtocolError(f"answered with more than {ANSWER_BYTES_MAX} bytes")
            parts.append(part)
        return b"".join(parts)

    async def parts(self) -> AsyncIterator[bytes]:
        """Of the body of the answer whose head was read."""
        if self._headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await self._reader.readuntil(b"\n")).partition(b";")[0], 16):
                async for part in self._exactly(size):
                    yield part
                await self._reader.readuntil(b"\n")
            await self._read_headers()
            return
        async for part in self._exactly(int(self._headers.get("content-length", "0"))):
            yield part

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        while size > 0:
            part = await self._reader.read(min(size, PART_BYTES))
            if not part:
                raise EOFError("the answer ends early")
            size -= len(part)
            yield part


class _Idle(NamedTuple):
    connection: Connection
    since_s: float


class AsyncConnections:
    def __init__(self) -> None:
        self._idle: dict[Address, list[_Idle]] = {}

    def close(self) -> None:
        idle, self._idle = self._idle, {}
        for kept in idle.values():
            for each in kept:
                each.connection.close()

    async def send(self, address: Address, request: Request, timeout_s: float) -> Answer | Unreachable:
        opened: Connection | Unreachable | None = None
        try:
            async with asyncio.timeout(timeout_s):
                opened = self._take(address) or await _connect(address)
                if isinstance(opened, Unreachable):
                    return opened
                try:
                    status, headers = await opened.ask(request)
                    body = await opened.body()
                except BaseException:
                    opened.close()
                    raise
        except TimeoutError:
            return Unreachable("did not answer in time", was_sent=isinstance(opened, Connection))
        except _FAULTS as error:
            return Unreachable(f"did not answer: {error!r}", was_sent=True)
        self._keep(address, opened)
        return Answer(status, headers, body)

    async def stream(self, address: Address, request: Request, silence_s: float) -> OpenedStream | Unreachable:
        """On a connection of its own, which is taken for lost when nothing comes for `silence_s`."""
        opened = await _connect(address)
        if isinstance(opened, Unreachable):
            return opened
        try:
            async with asyncio.timeout(silence_s):
                status, headers = await opened.ask(request)
                body = b"" if status == 200 else await opened.body()
        except BaseException as error:
            opened.close()
            if isinstance(error, _FAULTS):
                return Unreachable(f"did not answer: {error!r}", was_sent=True)
            raise
        return OpenedStream(opened, Answer(status, headers, body), silence_s)

    def _take(self, address: Address) -> Connection | None:
        oldest_s = asyncio.get_running_loop().time() - IDLE_SECONDS_MAX
        kept = self._idle.get(address)
        while kept:
            idle = kept.pop()
            if idle.since_s > oldest_s and idle.connection.is_quiet:
                return idle.connection
            idle.connection.close()
        return None

    def _keep(self, address: Address, connection: Connection) -> None:
        kept = self._idle.setdefault(address, [])
        if connection.will_close or len(kept) >= PARALLEL_MAX:
            connection.close()
        else:
            kept.append(_Idle(connection, asyncio.get_running_loop().time()))


class OpenedStream:
    """The parts of an answer as they come. The end of the `with` closes its connection."""

    def __init__(self, connection: Connection, answer: Answer, silence_s: float) -> None:
        self._connection = connection
        self._silence_s = silence_s
        self.answer = answer
        """With its body unless the status is 200."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = self._connection.parts()
        try:
            while True:
                async with asyncio.timeout(self._silence_s):
                    part = await anext(parts)
                yield part
        except (StopAsyncIteration, *_FAULTS):
            # The stream is resumed on another connection.
            return


async def _connect(address: Address) -> Connection | Unreachable:
    try:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(address.host, address.port)
    except OSError as error:
        return Unreachable(f"cannot be reached: {error}", was_sent=False)
    return Connection(address, reader, writer)
