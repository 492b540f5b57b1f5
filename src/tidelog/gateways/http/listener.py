"""The HTTP port: takes connections, counts them, and sweeps away those that only hold memory."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from tidelog.api.context import Caller, Origin
from tidelog.gateways.access import LogAccess
from tidelog.gateways.http.connection import HttpConnection
from tidelog.gateways.http.messages import HttpError
from tidelog.gateways.http.sending import Burst
from tidelog.model import limits
from tidelog.net.budget import PartOfBudget
from tidelog.runtime.tasks import BackgroundTasks

if TYPE_CHECKING:
    import socket

    from tidelog.api.dispatcher import Dispatcher
    from tidelog.gateways.http.service import HttpService
    from tidelog.net.network import AcceptsConnections, Network
    from tidelog.net.shared import SharedByListeners

SWEEP_SECONDS: Final = 1.0
IDLE_SECONDS_MAX: Final = 75.0
"""How long a connection is kept for a next request."""
SILENT_SECONDS_MAX: Final = 20.0
"""How long a request that has begun may make no progress."""
STARVED_SECONDS_MAX: Final = 4.0
"""The same while the door holds all that it may: what does not get on makes room for what does."""
STUCK_SECONDS_MAX: Final = 120.0
"""How long a client may take nothing of what it is sent."""
BACKLOG: Final = 1024
CLIENT_ID: Final = "http"


class HttpListener:
    def __init__(
        self, service: HttpService, shared: SharedByListeners, network: Network, *, connections_max: int
    ) -> None:
        self.service: Final = service
        self.shared: Final = shared
        self.budget: Final = PartOfBudget(shared.budget, int(shared.budget.limit_bytes * limits.HTTP_SHARE_OF_BUDGET))
        self.burst: Final = Burst()
        self._connections_max = min(connections_max, limits.CONNECTIONS_MAX)
        self._connections: dict[HttpConnection, None] = {}
        """In the order in which they were opened."""
        self._tasks = BackgroundTasks()
        self._acceptor: AcceptsConnections | None = network.new_acceptor(self._new_connection, BACKLOG)
        self._way_in: tuple[Dispatcher, str] | None = None
        """The dispatcher, and the listener whose addresses clients get where they ask for nodes."""
        self._sweeper: asyncio.TimerHandle | None = None
        self.host = ""
        self.port = 0

    async def bind(self, host: str, port: int) -> None:
        """Takes the address; raises OSError. No connection is accepted before `serve`."""
        assert self._acceptor is not None, "a closed port is not opened again"
        bound_host, self.port = await self._acceptor.bind(host, port)
        self.host = host or bound_host

    def serve(self, dispatcher: Dispatcher, listener_name: str) -> None:
        assert self._acceptor is not None, "a closed port is not opened again"
        self._way_in = dispatcher, listener_name
        self._sweep()
        self._acceptor.start()

    async def opened(self) -> None:
        """Clients are answered from `serve` on."""

    def _new_connection(self, accepted: socket.socket | None) -> asyncio.BufferedProtocol:
        # The acceptor only hands it to a transport, which takes both kinds of protocol.
        return HttpConnection(self, accepted)  # type: ignore[return-value]

    def stop_accepting(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None
        for connection in list(self._connections):
            connection.finish()

    async def close(self) -> None:
        """Ends what is still open."""
        self.stop_accepting()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._connections):
            connection.close("shutdown")
        await self._tasks.close()

    # -- called by connections -----------------------------------------------------------------------------------------

    def introduce(self, peer_host: str) -> LogAccess:
        """What the client of a connection may do with the log."""
        assert self._way_in is not None, "no connection is accepted before `serve`"
        dispatcher, listener_name = self._way_in
        return LogAccess(dispatcher, Caller(Origin.GATEWAY, peer_host, listener_name), CLIENT_ID)

    def connection_opened(self, connection: HttpConnection) -> None:
        self._connections[connection] = None
        shared = self.shared
        shared.metrics.count_opened()
        shared.counts.opened(connection.access.caller.peer_host)
        if shared.counts.total > self._connections_max:
            fault = HttpError(503, f"The node has {self._connections_max} connections and takes no more.")
            connection.refuse(fault, "limit")

    def connection_closed(self, connection: HttpConnection, reason: str) -> None:
        """`reason` is one of telemetry's CLOSE_REASONS."""
        del self._connections[connection]
        self.shared.counts.closed(connection.access.caller.peer_host)
        self.shared.metrics.count_closed(reason)

    def start(self, answering: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.start(answering, "http request")

    def now_s(self) -> float:
        return self.shared.monotonic_s()

    # -- sweeping ------------------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        now_s = self.now_s()
        self.service.refresh_date()
        self.budget.wake()
        for connection in list(self._connections):
            silent_s = now_s - connection.heard_s
            if connection.sender.is_held_up:
                if silent_s > STUCK_SECONDS_MAX:
                    connection.abort("slow")
            elif not (connection.intake.waiting or connection.intake.is_arriving):
                if silent_s > IDLE_SECONDS_MAX:
                    connection.close("idle")
            elif connection.has_stalled(silent_s, SILENT_SECONDS_MAX):
                connection.refuse(HttpError(408, "The request did not arrive in time."), "slow")
            elif self.budget.is_spent and connection.has_stalled(silent_s, STARVED_SECONDS_MAX):
                fault = HttpError(503, "The node is short of memory for requests.", headers={"Retry-After": "5"})
                connection.refuse(fault, "slow")
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)
