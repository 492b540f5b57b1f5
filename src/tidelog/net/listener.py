"""Accepts connections on one address, counts them, bounds them and sweeps away those that only hold memory."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from dataclasses import dataclass

from tidelog.model import limits
from tidelog.net.connection import Connection, Dispatch
from tidelog.net.loop_side import ConnectionProtocol
from tidelog.net.network import NETWORK, AcceptsConnections, Network
from tidelog.net.shared import SharedByListeners
from tidelog.telemetry.logs import get_logger, report_held_back

logger = get_logger("tidelog.net")

SWEEP_INTERVAL_S = 1.0
STALLED_FRAME_S = 10.0
"""How long an incomplete request may make no progress while the node's budget is spent."""


class ListenError(Exception):
    """The address cannot be used; the message says why in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    name: str
    """The name in `listeners`, such as PLAINTEXT."""
    frame_bytes_max: int = limits.FRAME_BYTES_MAX
    connections_max: int = limits.CONNECTIONS_MAX
    """Counted over all listeners of the node, like those per host."""
    connections_per_host_max: int = limits.CONNECTIONS_MAX
    is_for_nodes: bool = False
    """Other nodes use it and clients do not. Of the two limits on the total, only the hard one holds then: clients must
    not keep a node out of its cluster."""
    requests_per_connection_max: int = limits.CONNECTION_IN_FLIGHT_REQUESTS_MAX
    backlog: int = 1024
    send_buffer_bytes: int = -1
    """-1: as the system chooses."""
    receive_buffer_bytes: int = -1
    idle_s: float = 600.0

    @property
    def connection_bytes_max(self) -> int:
        """How much one connection may have in flight: at least its largest request and a little of the next."""
        return max(limits.CONNECTION_IN_FLIGHT_BYTES_MAX, self.frame_bytes_max + (1 << 20))


class Listener:
    def __init__(self, settings: ListenerSettings, shared: SharedByListeners, network: Network = NETWORK) -> None:
        self.settings = settings
        self.shared = shared
        self._dispatch: Dispatch | None = None
        self._network = network
        self.connections: dict[Connection, float] = {}
        """Each with the time at which it was last heard, as seen once in a while. The order is that in which they were
        opened, so that a simulation closes them in the same order each time."""
        self._acceptor: AcceptsConnections | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self.host = ""
        self.port = 0

    @property
    def connection_count(self) -> int:
        return len(self.connections)

    async def bind(self, host: str, port: int) -> None:
        """Takes the address; no connection is accepted before `serve`, so that the node can finish its start first."""
        acceptor = self._network.new_acceptor(self.new_connection, self.settings.backlog)
        try:
            bound_host, self.port = await acceptor.bind(host, port)
        except OSError as error:
            raise ListenError(explain_address(host, port, error)) from error
        self._acceptor = acceptor
        self.host = host or bound_host

    async def serve(self, dispatch: Dispatch) -> None:
        assert self._acceptor is not None, "bind comes first"
        self._dispatch = dispatch
        self._acceptor.start()
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._sweep)

    def new_connection(self, accepted: socket.socket | None) -> ConnectionProtocol:
        """For a transport that works on this socket, or on none."""
        assert self._dispatch is not None, "no connection is accepted before `serve`"
        return ConnectionProtocol(Connection(self, self._dispatch, accepted))

    def stop_accepting(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None

    def close_connections(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self.connections):
            connection.close("shutdown")

    # -- called by connections -------------------------------------------------------------------------------------

    def connection_opened(self, connection: Connection) -> None:
        self.connections[connection] = self.shared.monotonic_s()
        self.shared.metrics.connections_total += 1
        self.shared.metrics.connections_current += 1
        host = connection.peer_host
        self.shared.counts.opened(host)
        settings = self.settings
        connections_max = limits.CONNECTIONS_MAX if settings.is_for_nodes else settings.connections_max
        if self.shared.counts.total > connections_max:
            connection.close("limit", f"more than {connections_max} connections")
        elif self.shared.counts.by_host[host] > settings.connections_per_host_max:
            connection.close("limit", f"more than {settings.connections_per_host_max} connections from {host}")

    def size_buffers(self, connected: socket.socket) -> None:
        settings = self.settings
        sizes = ((socket.SO_SNDBUF, settings.send_buffer_bytes), (socket.SO_RCVBUF, settings.receive_buffer_bytes))
        for option, size_bytes in sizes:
            if size_bytes > 0:
                connected.setsockopt(socket.SOL_SOCKET, option, size_bytes)

    def connection_closed(self, connection: Connection, reason: str) -> None:
        self.connections.pop(connection, None)
        self.shared.counts.closed(connection.peer_host)
        self.shared.metrics.count_closed(reason)

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
        now_s = self.shared.monotonic_s()
        for connection, heard_s in list(self.connections.items()):
            if connection.was_heard:
                connection.was_heard = False
                self.connections[connection] = heard_s = now_s
            silent_s = now_s - heard_s
            if connection.has_partial_frame and silent_s > STALLED_FRAME_S and self.shared.budget.is_spent:
                connection.close("slow", "an incomplete request held memory the node is short of")
            elif silent_s > self.settings.idle_s and connection.is_idle:
                connection.close("idle")
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._sweep)


def explain_address(host: str, port: int, error: OSError) -> str:
    address = f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {address}: the port is in use; stop the other process or choose another port"
    if isinstance(error, socket.gaierror):
        return f"cannot listen on {address}: the host name does not resolve"
    if error.errno == errno.EACCES:
        return f"cannot listen on {address}: not permitted (ports below 1024 need privileges)"
    return f"cannot listen on {address}: {os.strerror(error.errno) if error.errno else error}"
