"""The HTTP port: takes connections, bounds them, and sweeps away those that only hold memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

from tidelog.api.context import Caller, Origin
from tidelog.gateways.access import LogAccess
from tidelog.gateways.http.connection import HttpConnection
from tidelog.gateways.http.cors import Cors
from tidelog.gateways.http.errors import respond_to_fault
from tidelog.gateways.http.messages import HttpError, Request, Response
from tidelog.model import limits
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    import socket

    from tidelog.api.dispatcher import Dispatcher
    from tidelog.gateways.http.routes import Router
    from tidelog.model.errors import BrokerError
    from tidelog.net.network import AcceptsConnections, Network
    from tidelog.net.shared import SharedByListeners

logger = get_logger("tidelog.http")

SWEEP_SECONDS: Final = 1.0
IDLE_SECONDS_MAX: Final = 75.0
"""How long a connection is kept for a next request."""
SILENT_SECONDS_MAX: Final = 20.0
"""How long a request that has begun may make no progress."""
STUCK_SECONDS_MAX: Final = 120.0
"""How long a client may take nothing of what it is sent."""
BACKLOG: Final = 1024
CLIENT_ID: Final = "http"


class HttpListener:
    def __init__(
        self, router: Router, shared: SharedByListeners, network: Network, *, connections_max: int, cors: Cors
    ) -> None:
        self.shared: Final = shared
        self._router = router
        self._network = network
        self._connections_max = min(connections_max, limits.CONNECTIONS_MAX)
        self._cors = cors
        self._connections: dict[HttpConnection, None] = {}
        self._tasks = BackgroundTasks()
        self._acceptor: AcceptsConnections | None = None
        self._dispatcher: Dispatcher | None = None
        self._listener_name = ""
        self._sweeper: asyncio.TimerHandle | None = None
        self._date = ""
        self.host = ""
        self.port = 0

    async def bind(self, host: str, port: int) -> None:
        """Takes the address; raises OSError. No connection is accepted before `serve`."""
        acceptor = self._network.new_acceptor(self._new_connection, BACKLOG)
        bound_host, self.port = await acceptor.bind(host, port)
        self.host = host or bound_host
        self._acceptor = acceptor

    def serve(self, dispatcher: Dispatcher, listener_name: str) -> None:
        """`listener_name`: the listener whose addresses clients of this port get where they ask for nodes."""
        assert self._acceptor is not None, "bind comes first"
        self._dispatcher = dispatcher
        self._listener_name = listener_name
        self._sweep()
        self._acceptor.start()

    def _new_connection(self, _: socket.socket | None) -> asyncio.BufferedProtocol:
        # The acceptor only hands it to a transport, which takes both kinds of protocol.
        return HttpConnection(self)  # type: ignore[return-value]

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
            connection.close()
        await self._tasks.close()

    # -- called by connections -----------------------------------------------------------------------------------------

    def introduce(self, peer_host: str) -> LogAccess:
        assert self._dispatcher is not None, "no connection is accepted before `serve`"
        return LogAccess(self._dispatcher, Caller(Origin.GATEWAY, peer_host, self._listener_name), CLIENT_ID)

    def opened(self, connection: HttpConnection) -> None:
        connection.heard_s = self.now_s()
        self._connections[connection] = None
        shared = self.shared
        shared.metrics.connections_total += 1
        shared.metrics.connections_current += 1
        shared.counts.opened(connection.peer_host)
        if shared.counts.total > self._connections_max:
            connection.refuse(HttpError(503, f"The node has {self._connections_max} connections, and takes no more."))

    def closed(self, connection: HttpConnection) -> None:
        if self._connections.pop(connection, self) is None:
            self.shared.counts.closed(connection.peer_host)
            self.shared.metrics.count_closed("client")

    def find_route(self, request: Request) -> None:
        """What is wrong with the request is noted in it: it is answered when its turn comes."""
        try:
            self._router.find(request)
        except HttpError as error:
            request.fault = error

    def start(self, answering: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.start(answering, "http request")

    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay_s, act)

    def now_s(self) -> float:
        return self.shared.monotonic_s()

    def date(self) -> str:
        return self._date

    def extra_headers(self, request: Request) -> Mapping[str, str]:
        return self._cors.headers(request)

    def answer_preflight(self, request: Request) -> Response | None:
        """To a browser that asks what it may send."""
        if request.method != "OPTIONS":
            return None
        return self._cors.answer_preflight(request, self._router.methods_of(request.path))

    def respond_to_fault(self, request: Request, fault: HttpError | BrokerError) -> Response:
        route = request.route
        if route is not None and route.respond_to_fault is not None:
            return route.respond_to_fault(fault)
        return respond_to_fault(fault)

    # -- sweeping ------------------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        now_s = self.now_s()
        self._date = formatdate(usegmt=True)
        for connection in list(self._connections):
            silent_s = now_s - connection.heard_s
            if connection.is_stuck:
                if silent_s > STUCK_SECONDS_MAX:
                    connection.abort()
            elif connection.is_idle:
                if silent_s > IDLE_SECONDS_MAX:
                    connection.close()
            elif connection.is_incomplete and silent_s > SILENT_SECONDS_MAX:
                connection.refuse(HttpError(408, "The request did not arrive in time."))
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)
