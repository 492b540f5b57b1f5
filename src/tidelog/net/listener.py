"""Accepts connections on one address, counts them, bounds them and sweeps away those that only hold memory."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from tidelog.model import limits
from tidelog.net.accepting import Acceptor
from tidelog.net.budget import ByteBudget
from tidelog.net.connection import Connection, Dispatch
from tidelog.net.framing import SCRATCH_BYTES
from tidelog.net.loop_side import ConnectionProtocol
from tidelog.net.outbox import Outbox
from tidelog.net.places import FramePlaces
from tidelog.telemetry.logs import get_logger, report_held_back
from tidelog.telemetry.metrics import NodeMetrics

logger = get_logger("tidelog.net")

SWEEP_INTERVAL_S = 1.0
STALLED_FRAME_S = 10.0
"""How long an incomplete request may make no progress while the node's budget is spent."""


class ListenError(Exception):
    """The address cannot be used; the message says why in one line."""


class ConnectionCounts:
    """How many connections a node has, over all its listeners."""

    def __init__(self) -> None:
        self.total = 0
        self.by_host: dict[str, int] = {}

    def opened(self, host: str) -> None:
        self.total += 1
        self.by_host[host] = self.by_host.get(host, 0) + 1

    def closed(self, host: str) -> None:
        self.total -= 1
        left = self.by_host[host] - 1
        if left:
            self.by_host[host] = left
        else:
            del self.by_host[host]


class Listener:
    def __init__(
        self,
        name: str,
        metrics: NodeMetrics,
        *,
        budget: ByteBudget,
        frame_bytes_max: int = limits.FRAME_BYTES_MAX,
        connections_max: int = limits.CONNECTIONS_MAX,
        connections_per_host_max: int = limits.CONNECTIONS_MAX,
        counts: ConnectionCounts | None = None,
        is_for_nodes: bool = False,
        requests_per_connection_max: int = limits.CONNECTION_IN_FLIGHT_REQUESTS_MAX,
        backlog: int = 1024,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        idle_s: float = 600.0,
        monotonic_s: Callable[[], float],
    ) -> None:
        """`counts` is shared by the listeners of a node, and so are the limits on it. For a listener that other nodes
        use, and clients do not, only the hard limit holds: clients must not keep a node out of its cluster."""
        self.name = name
        self.metrics = metrics
        self.budget = budget
        self.frame_bytes_max = frame_bytes_max
        self.connection_bytes_max = max(limits.CONNECTION_IN_FLIGHT_BYTES_MAX, frame_bytes_max + (1 << 20))
        self.monotonic_s = monotonic_s
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        """Where the sockets of all connections are read into, one at a time."""
        self.places = FramePlaces()
        self.outbox = Outbox()
        self._dispatch: Dispatch | None = None
        self._connections_max = connections_max
        self._connections_per_host_max = connections_per_host_max
        self._counts = counts if counts is not None else ConnectionCounts()
        self._is_for_nodes = is_for_nodes
        self.requests_per_connection_max = requests_per_connection_max
        self._backlog = backlog
        self._buffer_sizes = ((socket.SO_SNDBUF, send_buffer_bytes), (socket.SO_RCVBUF, receive_buffer_bytes))
        self._idle_s = idle_s
        self._connections: set[Connection] = set()
        self._acceptor: Acceptor | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self.host = ""
        self.port = 0

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def bind(self, host: str, port: int) -> None:
        """Takes the address; nobody is accepted before `serve`, so that the node can finish its start first."""
        acceptor = Acceptor(self._new_connection, self._backlog)
        try:
            bound_host, self.port = await acceptor.bind(host, port)
        except OSError as error:
            raise ListenError(_explain(host, port, error)) from error
        self._acceptor = acceptor
        self.host = host or bound_host

    async def serve(self, dispatch: Dispatch) -> None:
        assert self._acceptor is not None, "bind comes first"
        self._dispatch = dispatch
        self._acceptor.start()
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._sweep)

    def _new_connection(self, accepted: socket.socket | None) -> ConnectionProtocol:
        assert self._dispatch is not None, "nobody is accepted before `serve`"
        return ConnectionProtocol(Connection(self, self._dispatch, accepted))

    def stop_accepting(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None

    def close_connections(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._connections):
            connection.close("shutdown")

    # -- called by connections -------------------------------------------------------------------------------------

    def connection_opened(self, connection: Connection) -> None:
        self._connections.add(connection)
        self.metrics.connections_total += 1
        self.metrics.connections_current += 1
        host = connection.peer_host
        self._counts.opened(host)
        connections_max = limits.CONNECTIONS_MAX if self._is_for_nodes else self._connections_max
        if self._counts.total > connections_max:
            connection.close("limit", f"more than {connections_max} connections")
        elif self._counts.by_host[host] > self._connections_per_host_max:
            connection.close("limit", f"more than {self._connections_per_host_max} connections from {host}")

    def size_buffers(self, connected: socket.socket) -> None:
        for option, size_bytes in self._buffer_sizes:
            if size_bytes > 0:
                connected.setsockopt(socket.SOL_SOCKET, option, size_bytes)

    def connection_closed(self, connection: Connection, reason: str) -> None:
        self._connections.discard(connection)
        self._counts.closed(connection.peer_host)
        self.metrics.count_closed(reason)

    def report_close(self, connection: Connection, reason: str, detail: str) -> None:
        """Says that this node closes a connection, in at most a few lines a minute for each reason and host."""
        if reason not in ("idle", "starting", "shutdown"):
            logger.warning_limited(
                "closed a connection",
                limit_by=("reason", "peer"),
                reason=reason,
                peer=connection.peer_host,
                port=connection.peer_port,
                detail=detail,
            )

    # -- sweeping --------------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Closes idle connections, and when memory is short those that sit on incomplete requests."""
        report_held_back()
        now_s = self.monotonic_s()
        for connection in list(self._connections):
            if connection.was_heard:
                connection.was_heard = False
                connection.last_active_s = now_s
            silent_s = now_s - connection.last_active_s
            if connection.has_partial_frame and silent_s > STALLED_FRAME_S and self.budget.is_spent:
                connection.close("slow", "an incomplete request held memory the node is short of")
            elif silent_s > self._idle_s and connection.is_idle:
                connection.close("idle")
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._sweep)


def _explain(host: str, port: int, error: OSError) -> str:
    address = f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {address}: the port is in use; stop the other process or choose another port"
    if isinstance(error, socket.gaierror):
        return f"cannot listen on {address}: the host name does not resolve"
    if error.errno == errno.EACCES:
        return f"cannot listen on {address}: not permitted (ports below 1024 need privileges)"
    return f"cannot listen on {address}: {os.strerror(error.errno) if error.errno else error}"
