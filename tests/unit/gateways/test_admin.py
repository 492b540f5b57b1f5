import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.waiting import eventually

from tidelog.gateways.http.admin import CONNECTIONS_MAX, AdminListenError, AdminServer
from tidelog.telemetry.metrics import NodeMetrics, PartitionSample


class Source:
    """A node as the admin port sees it."""

    def __init__(self) -> None:
        self.metrics = NodeMetrics()
        self.ready = False
        self.offline = 0

    def is_ready(self) -> bool:
        return self.ready

    def health(self) -> dict[str, object]:
        return {"node_id": 7, "offline_partitions": self.offline}


@asynccontextmanager
async def serving(source: Source) -> AsyncIterator[int]:
    server = AdminServer(source, "127.0.0.1", 0)
    server.bind()
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop()


async def get(port: int, path: str, *, method: str = "GET", accept: str = "") -> tuple[int, str, bytes]:
    def ask() -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request(method, path, headers={"Accept": accept} if accept else {})
            response = connection.getresponse()
            return response.status, response.headers.get("content-type", ""), response.read()
        finally:
            connection.close()

    return await asyncio.to_thread(ask)


def test_metrics_are_served_in_both_formats() -> None:
    async def run() -> None:
        source = Source()
        source.metrics.bytes_in = 4711
        source.metrics.sample_partitions = lambda: [PartitionSample("t", 0, 0, 5, 5, 100, 1)]
        async with serving(source) as port:
            status, content_type, body = await get(port, "/metrics")
            assert (status, content_type.split(";")[0]) == (200, "text/plain")
            assert b"\ntidelog_network_received_bytes_total 4711.0\n" in body
            assert b'\ntidelog_log_end_offset{partition="0",topic="t"} 5.0\n' in body
            _, content_type, body = await get(port, "/metrics", accept="application/openmetrics-text; version=1.0.0")
            assert content_type.startswith("application/openmetrics-text")
            assert body.endswith(b"# EOF\n")

    asyncio.run(run())


def test_readiness_and_health_follow_the_node() -> None:
    async def run() -> None:
        source = Source()
        async with serving(source) as port:
            assert (await get(port, "/readyz"))[0] == 503
            assert (await get(port, "/healthz"))[0] == 200
            source.ready = True
            status, _, body = await get(port, "/readyz")
            assert (status, json.loads(body)) == (200, {"ready": True})
            status, _, body = await get(port, "/healthz")
            assert (status, json.loads(body)) == (200, {"status": "ok", "node_id": 7, "offline_partitions": 0})
            source.offline = 3
            status, _, body = await get(port, "/healthz")
            assert (status, json.loads(body)["offline_partitions"]) == (200, 3), "told, and no reason to end the node"

    asyncio.run(run())


def test_index_unknown_paths_and_methods() -> None:
    async def run() -> None:
        async with serving(Source()) as port:
            status, _, body = await get(port, "/")
            assert status == 200
            assert b"/metrics\n/healthz\n/readyz\n" in body
            assert (await get(port, "/nothing"))[0] == 404
            assert (await get(port, "/metrics", method="POST"))[0] == 405
            assert (await get(port, "/healthz", method="HEAD"))[0] == 200

    asyncio.run(run())


def test_a_taken_port_is_one_clear_line() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(AdminListenError) as caught:
                AdminServer(Source(), "127.0.0.1", port).bind()
        assert str(caught.value) == f"admin.listen: cannot listen on 127.0.0.1:{port}: Address already in use"

    asyncio.run(run())


def test_an_address_that_is_not_ours_is_refused() -> None:
    async def run() -> None:
        with pytest.raises(AdminListenError, match=r"cannot listen on 192\.0\.2\.1:1: "):
            AdminServer(Source(), "192.0.2.1", 1).bind()
        with pytest.raises(AdminListenError, match="cannot listen on localhost:99999: "):
            AdminServer(Source(), "localhost", 99999).bind()

    asyncio.run(run())


def test_the_port_is_free_after_stop_and_idle_connections_do_not_hold_it_up() -> None:
    async def run() -> None:
        source = Source()
        server = AdminServer(source, "127.0.0.1", 0)
        server.bind()
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.wait_for(server.stop(), 5)
        writer.close()
        again = AdminServer(source, "127.0.0.1", server.port)
        again.bind()
        await again.start()
        await again.stop()

    asyncio.run(run())


def test_connections_beyond_the_limit_are_turned_away() -> None:
    async def run() -> None:
        async with serving(Source()) as port:
            open_connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
            assert (await get(port, "/healthz"))[0] == 503
            for _, writer in open_connections:
                writer.close()
                await writer.wait_closed()

            async def is_answered() -> bool:
                return (await get(port, "/healthz"))[0] == 200

            await eventually(is_answered, "an answer once the connections are closed")

    asyncio.run(run())


def test_signals_stay_with_the_node() -> None:
    async def run() -> None:
        asked: list[int] = []
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, asked.append, 1)
        try:
            async with serving(Source()) as port:
                os.kill(os.getpid(), signal.SIGTERM)
                assert (await get(port, "/healthz"))[0] == 200
                assert asked == [1]
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    asyncio.run(run())


def test_importing_the_module_imports_nothing_heavy() -> None:
    check = (
        "import sys, tidelog.gateways.http.admin\n"
        "heavy = {'starlette', 'uvicorn', 'prometheus_client', 'json', 'email'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
