"""A way to a node that can be cut: a TCP relay in the test process.

A relay listens at a port of its own for as long as there is a cluster, and passes bytes on to the port that the node
has at the moment. While its node is not running it refuses connections, as the port of a process that ended does. While
it is cut it passes nothing on: open connections fall silent, new ones are taken and stay silent. What was under way
when it was cut arrives when it is healed, as it does after a short cut of a real network.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

from tidelog.runtime.tasks import BackgroundTasks

HOST = "127.0.0.1"
CHUNK_BYTES_MAX = 1 << 16
"""What a direction of a connection holds back at most, besides the buffers of its sockets."""
BACKLOG = 128


class Relay:
    """Made and used in an event loop, but for `port`."""

    def __init__(self) -> None:
        self._target: int | None = None
        self._passable = asyncio.Event()
        self._passable.set()
        # Bound for good and never listening: the port stays this relay's while it refuses connections.
        self._claim = _bind(0)
        self.port: int = self._claim.getsockname()[1]
        self._listener: socket.socket | None = None
        self._connections = BackgroundTasks()

    async def lead_to(self, port: int | None) -> None:
        """The port of the node from now on; None when it is not running."""
        self._target = port
        await self._listen_or_refuse()

    async def cut(self) -> None:
        self._passable.clear()
        await self._listen_or_refuse()

    async def heal(self) -> None:
        self._passable.set()
        await self._listen_or_refuse()

    async def close(self) -> None:
        self._refuse()
        await self._connections.close()
        self._claim.close()

    async def _listen_or_refuse(self) -> None:
        # Across a cut no client can see that the node is not running.
        if self._target is None and self._passable.is_set():
            self._refuse()
        elif self._listener is None:
            self._listener = _bind(self.port)
            self._listener.listen(BACKLOG)
            self._listener.setblocking(False)
            # Not a server of asyncio: one that is closed between an accept and its transport leaves that one open.
            asyncio.get_running_loop().add_reader(self._listener, self._accept, self._listener)

    def _refuse(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        try:
            accepted, _ = listener.accept()
        except OSError:
            # The client has gone again.
            return
        accepted.setblocking(False)
        connection = self._connections.start(self._carry(accepted), "relayed connection")
        # Here and not in the task, which may be cancelled before it has begun.
        connection.add_done_callback(lambda _: accepted.close())

    async def _carry(self, accepted: socket.socket) -> None:
        """One connection, until either end closes it."""
        await self._passable.wait()
        if self._target is None:
            return
        reader, writer = await asyncio.open_connection(sock=accepted, limit=CHUNK_BYTES_MAX)
        try:
            await self._carry_to(self._target, reader, writer)
        finally:
            # Everything was drained that was to arrive; `close` could wait for ever for a node that is paused.
            writer.transport.abort()

    async def _carry_to(self, port: int | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, port, limit=CHUNK_BYTES_MAX)
        except OSError:
            return
        directions = [
            asyncio.ensure_future(self._pass_on(reader, far_writer)),
            asyncio.ensure_future(self._pass_on(far_reader, writer)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            far_writer.transport.abort()
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ends when the reader's end was closed, once the other end may know of it."""
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES_MAX):
                await self._passable.wait()
                writer.write(chunk)
                await writer.drain()
        await self._passable.wait()


def _bind(port: int) -> socket.socket:
    """Of a claim and of the server beside it, only the server listens and is given connections."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((HOST, port))
    return bound
