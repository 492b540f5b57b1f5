"""The gRPC door of a node: bound first, opened when the node has started.

grpcio and protobuf are imported when it begins to serve, in a thread: they take about 0.2 s. Until then the address is
held by a socket of our own, so that one that is taken is known at once. gRPC opens its sockets itself, and gets the
address when it is about to listen.
"""

from __future__ import annotations

import asyncio
import os
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tidelog.model.limits import GRPC_UNREAD_RECORDS_MAX
from tidelog.net.listener import ListenError
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.api.dispatcher import Dispatcher
    from tidelog.gateways.grpc.server import DoorServer

REQUIRED_PACKAGES = ("grpc", "grpc_health", "grpc_reflection", "google.protobuf")
"""What the extra `tidelog[grpc]` brings."""

logger = get_logger("tidelog.grpc")


class GrpcListenError(ListenError):
    """The door cannot be opened; the message is one line for a person."""


class GrpcDoor:
    """After `bind` the address is taken; calls are answered from `opened` on, and `close` ends them."""

    def __init__(self, host: str, port: int, *, max_in_flight: int = GRPC_UNREAD_RECORDS_MAX) -> None:
        """`max_in_flight`: records that a subscription may have read and its client has not taken."""
        self.host = host
        self.port = port
        """The port in use, after `bind`; differs from the one asked for when that was 0."""
        self._max_in_flight = max_in_flight
        self._held: socket.socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._server: DoorServer | None = None

    def bind(self) -> None:
        """Raises GrpcListenError if the address cannot be had, or what serves it is not installed."""
        for package in REQUIRED_PACKAGES:
            if not _is_installed(package):
                raise GrpcListenError(f"grpc.listen: {package} is not installed: pip install 'tidelog[grpc]'")
        if not 0 <= self.port <= 65535:
            raise GrpcListenError(f"grpc.listen: cannot listen on {self.host}:{self.port}: not a port number")
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        held = socket.socket(family, socket.SOCK_STREAM)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((self.host, self.port))
            # A socket that only is bound shares its address with others that say SO_REUSEADDR.
            held.listen(1)
        except OSError as error:
            held.close()
            reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
            raise GrpcListenError(f"grpc.listen: cannot listen on {self.host}:{self.port}: {reason}") from None
        self.port = held.getsockname()[1]
        self._held = held

    def serve(self, dispatcher: Dispatcher, listener_name: str) -> None:
        """Begins to open. Callers have the addresses of this listener where a handler looks for one."""
        self._opening = asyncio.create_task(self._open(dispatcher, listener_name), name="tidelog-grpc")
        self._opening.add_done_callback(_log_failure)

    async def opened(self) -> None:
        """Returns when calls are answered. Raises GrpcListenError if another process has taken the address."""
        assert self._opening is not None, "it serves first"
        await asyncio.shield(self._opening)

    async def _open(self, dispatcher: Dispatcher, listener_name: str) -> None:
        assert self._held is not None, "bind comes first"
        make = await asyncio.to_thread(_import_server)
        server = make(dispatcher, listener_name, self._max_in_flight)
        host = f"[{self.host}]" if ":" in self.host else self.host
        self._release_address()
        # Known before it has started: a stop may come in between.
        self._server = server
        try:
            await server.start(f"{host}:{self.port}")
        except RuntimeError:
            raise GrpcListenError(f"grpc.listen: cannot listen on {self.host}:{self.port}") from None
        logger.info("gRPC door open", host=self.host, port=self.port)

    def stop_accepting(self) -> None:
        """Health checks fail from now on, and new calls are refused; those under way go on."""
        if self._server is not None:
            self._server.stop_accepting()

    async def close(self) -> None:
        """At any point of the start. Calls under way have half a second to end."""
        self.stop_accepting()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        self._release_address()
        if self._server is not None:
            await self._server.stop()
            self._server = None

    def _release_address(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def _log_failure(opening: asyncio.Task[None]) -> None:
    if not opening.cancelled() and (fault := opening.exception()) is not None:
        logger.error("the gRPC door cannot open", reason=str(fault))


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _import_server() -> type[DoorServer]:
    """Everything that is heavy; runs in a thread."""
    from tidelog.gateways.grpc.server import DoorServer

    return DoorServer
