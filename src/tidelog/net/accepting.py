"""Takes connections off the listening sockets of one address, many in one turn of the loop.

uvloop takes one in each turn. On a busy node a turn lasts milliseconds, and of a thousand clients that come back at
once the last would wait for many seconds. A bound keeps clients that are served already from waiting for new ones.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from tidelog.net.pacing import resume_pacing, stop_pacing
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.net")

ACCEPTED_PER_TURN_MAX = 32
RETRY_S = 1.0
"""How long no connection is accepted when the system has no descriptor or memory left for one more."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    def __init__(
        self, new_connection: Callable[[socket.socket | None], asyncio.BufferedProtocol], backlog: int
    ) -> None:
        """`new_connection` gets the socket that its transport will work on, where there is one."""
        self._new_connection = new_connection
        self._backlog = backlog
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._opening = BackgroundTasks()
        self._retries: set[asyncio.TimerHandle] = set()
        self._paced: bytes | None = None
        """The congestion control for peers on other machines, where it is not that of the listening sockets."""

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Takes the address, of every family that it has; raises OSError. Returns what the first was bound to."""
        found = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                listening = socket.socket(family, kind, protocol)
                self._sockets.append(listening)
                listening.setblocking(False)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listening.bind(address)
        except OSError:
            self.close()
            raise
        bound = self._sockets[0].getsockname()
        return bound[0], bound[1]

    def start(self) -> None:
        for listening in self._sockets:
            self._paced = stop_pacing(listening)
            listening.listen(self._backlog)
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_PER_TURN_MAX):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                logger.warning_limited("cannot accept connections", error=str(error))
                self._pause(listening)
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._paced is not None:
                resume_pacing(accepted, address[0], self._paced)
            self._opening.start(self._open(accepted), "new connection")

    async def _open(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._new_connection(accepted), accepted)
        except OSError:
            # The peer is gone already.
            accepted.close()

    def _pause(self, listening: socket.socket) -> None:
        """The socket stays readable: looking again at once would only keep the loop busy."""
        self._loop.remove_reader(listening.fileno())

        def resume() -> None:
            self._retries.discard(handle)
            self._loop.add_reader(listening.fileno(), self._accept, listening)

        handle = self._loop.call_later(RETRY_S, resume)
        self._retries.add(handle)

    def close(self) -> None:
        """A connection that is just being opened is still served."""
        for handle in self._retries:
            handle.cancel()
        self._retries.clear()
        for listening in self._sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        self._sockets.clear()
