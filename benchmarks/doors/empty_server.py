"""The server of the HTTP door with one route that does nothing: `python -m benchmarks.doors.empty_server` prints its
port and serves until its standard input ends."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, cast

from tidelog.api.dispatcher import Dispatcher
from tidelog.gateways.http.cors import Cors
from tidelog.gateways.http.listener import HttpListener
from tidelog.gateways.http.messages import Response
from tidelog.gateways.http.routes import Outcome, Route, Router
from tidelog.gateways.http.service import HttpService
from tidelog.net.network import NETWORK
from tidelog.net.shared import SharedByListeners
from tidelog.telemetry.metrics import NodeMetrics


async def _answer(*_: Any) -> Response:
    return Response(b'{"offset":0}')


async def _serve() -> None:
    route = Route("GET", "/empty", _answer, "empty", "Does nothing.", "empty", (Outcome(200, "Nothing."),))
    shared = SharedByListeners(NodeMetrics(), time.monotonic, budget_bytes=1 << 30)
    listener = HttpListener(HttpService(Router([route]), Cors(())), shared, NETWORK, connections_max=10_000)
    await listener.bind("127.0.0.1", 0)
    # No handler here asks for anything.
    listener.serve(cast("Dispatcher", None), "PLAINTEXT")
    print(listener.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await listener.close()


def main() -> int:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
