"""Load over many connections, in a process of its own: `python -m benchmarks.doors.load ...` prints one JSON object.

The bytes of the request are ready; of an answer only its end is looked for."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from functools import partial

from benchmarks.client import latency_figures
from benchmarks.doors.requests import REQUESTS, is_whole_frame, is_whole_http

EndOf = Callable[[bytearray], bool]


class _Connection(asyncio.Protocol):
    """Sends its request again whenever the answer is there, or when it is told to."""

    def __init__(self, request: bytes, count: int, is_whole: EndOf, *, is_paced: bool) -> None:
        self._request = request
        self._left = count
        self._is_whole = is_whole
        self._is_paced = is_paced
        self._received = bytearray()
        self._sent_s = 0.0
        self._transport: asyncio.Transport
        self.done = asyncio.get_running_loop().create_future()
        self.values_ms: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        if not self._is_paced:
            self.send()

    def send(self) -> None:
        self._sent_s = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        if not self._is_whole(received):
            return
        self.values_ms.append((time.perf_counter() - self._sent_s) * 1000)
        del received[:]
        self._left -= 1
        if self._left == 0:
            self._transport.close()
            self.done.set_result(None)
        elif not self._is_paced:
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError("the server has ended the connection"))


async def _run(args: argparse.Namespace) -> dict[str, float]:
    request = REQUESTS[args.request]
    is_whole = is_whole_frame if args.request.startswith("kafka") else is_whole_http
    loop = asyncio.get_running_loop()
    each = args.requests // args.connections
    connections: list[_Connection] = []
    started_s = time.perf_counter()
    for _ in range(args.connections):
        connection = _Connection(request, each, is_whole, is_paced=args.rate > 0)
        await loop.create_connection(partial(_same, connection), "127.0.0.1", args.port)
        connections.append(connection)
    if args.rate > 0:
        await _pace(connections, each, args.rate)
    await asyncio.gather(*(connection.done for connection in connections))
    seconds = time.perf_counter() - started_s
    values_ms = [value for connection in connections for value in connection.values_ms]
    return {"requests": each * args.connections, "seconds": seconds, **latency_figures(values_ms)}


def _same(connection: _Connection) -> _Connection:
    return connection


async def _pace(connections: list[_Connection], each: int, rate: float) -> None:
    begin_s = time.perf_counter()
    for number in range(each * len(connections)):
        delay_s = begin_s + number / rate - time.perf_counter()
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        connections[number % len(connections)].send()


def main() -> int:
    import uvloop

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("request", choices=REQUESTS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument(
        "--rate", type=float, default=0.0, help="requests a second over all connections (0: as fast as it goes)"
    )
    args = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        json.dump(runner.run(_run(args)), sys.stdout)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
