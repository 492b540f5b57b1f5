"""The admin port: /metrics, /healthz, /readyz over HTTP, inside the node's event loop.

Only when `admin.listen` is set. Starlette and uvicorn are imported here, lazily and in a thread, so that a node
without an admin port never pays for them and one with it goes on starting and serving meanwhile. The port is bound
before anything is imported: a taken port is known at once. Nothing here changes the node; every path only reads.

/healthz says that the node is alive: 200 whenever its loop answers, during a start as well, with facts about its
partitions. /readyz says whether clients may be sent here: 503 until the start is complete and once the stop has begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from tidelog.telemetry.logs import get_logger
from tidelog.version import __version__

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from uvicorn import Server

    from tidelog.telemetry.metrics import NodeMetrics

CONNECTIONS_MAX = 64
"""More are answered 503: the port is for one or two scrapers and a load balancer."""

SHUTDOWN_SECONDS_MAX = 1

logger = get_logger("tidelog.admin")


REQUIRED_PACKAGES = ("prometheus_client", "starlette", "uvicorn")
"""What the extra `tidelog[admin]` brings: a broker for tests does without."""


class AdminListenError(Exception):
    """The admin port cannot be opened; the message is one line for a person."""


class AdminSource(Protocol):
    """What the admin port wants to know of a node; all calls are made in the node's loop."""

    @property
    def metrics(self) -> NodeMetrics: ...

    def is_ready(self) -> bool:
        """Whether clients may be sent here: false before the start is complete and once the stop has begun."""
        ...

    def health(self) -> Mapping[str, object]:
        """Facts (JSON values) about a node that is alive."""
        ...


class AdminServer:
    """The admin port of one node. After `bind` the address is taken; `start` returns when requests are answered, `stop`
    when the port is closed."""

    def __init__(self, source: AdminSource, host: str, port: int) -> None:
        self._source = source
        self._host = host
        self._requested_port = port
        self._listening: socket.socket | None = None
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = port
        """The port in use; differs from the one asked for when that was 0."""

    def bind(self) -> None:
        """Raises AdminListenError if the address cannot be had, or what serves it is not installed."""
        for package in REQUIRED_PACKAGES:
            if find_spec(package) is None:
                raise AdminListenError(f"admin.listen: {package} is not installed: pip install 'tidelog[admin]'")
        self._listening = _bind(self._host, self._requested_port)
        self.port = self._listening.getsockname()[1]

    async def start(self) -> None:
        assert self._listening is not None, "bind comes first"
        server, started = await asyncio.to_thread(_build_server, self._source)
        self._server = server
        self._serving = asyncio.create_task(server.serve(sockets=[self._listening]), name="tidelog-admin")
        waiting = asyncio.create_task(started.wait())
        try:
            await asyncio.wait((self._serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._serving.done():
            # It never ends by itself before `stop`, so this raises what went wrong.
            self._serving.result()
        logger.info("admin port open", host=self._host, port=self.port)

    async def stop(self) -> None:
        """At any point of the start."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._serving = None
        if self._listening is not None:
            self._listening.close()
            self._listening = None


def _bind(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise AdminListenError(f"admin.listen: cannot listen on {host}:{port}: not a port number")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=CONNECTIONS_MAX)
    except OSError as error:
        # create_server repeats the address in the text of the error; the name of the number is enough.
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror
        raise AdminListenError(f"admin.listen: cannot listen on {host}:{port}: {reason}") from None
    listening.setblocking(False)
    return listening


def _build_server(source: AdminSource) -> tuple[Server, asyncio.Event]:
    """Imports what is heavy; runs in a thread."""
    import uvicorn

    import tidelog.telemetry.exposition  # noqa: F401  so that the first scrape does not import it in the loop

    started = asyncio.Event()

    class EmbeddedServer(uvicorn.Server):
        """uvicorn without its hold on the process: signals belong to the node, and its caller waits for the start."""

        def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
            return contextlib.nullcontext()

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started.set()

    config = uvicorn.Config(
        _build_application(source),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS_MAX,
    )
    config.load()
    return EmbeddedServer(config), started


def _build_application(source: AdminSource) -> Starlette:
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route

    async def show_index(request: Request) -> Response:
        paths = "\n".join(route.path for route in routes if route.path != "/")
        return PlainTextResponse(f"tidelog {__version__}\n\n{paths}\n")

    async def show_metrics(request: Request) -> Response:
        from tidelog.telemetry.exposition import render, take_snapshot

        snapshot = take_snapshot(source.metrics)
        # In a thread: a few thousand partitions take tens of milliseconds that produces should not wait for.
        body, content_type = await asyncio.to_thread(render, snapshot, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    async def show_health(request: Request) -> Response:
        return JSONResponse({"status": "ok", **source.health()})

    async def show_readiness(request: Request) -> Response:
        is_ready = source.is_ready()
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    routes = [
        Route("/", show_index),
        Route("/metrics", show_metrics),
        Route("/healthz", show_health),
        Route("/readyz", show_readiness),
    ]
    return Starlette(routes=routes)
