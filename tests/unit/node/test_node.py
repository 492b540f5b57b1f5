"""What can be asked of a node that is starting, and a stop that cannot end."""

import asyncio
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import Executor
from pathlib import Path

import pytest
from tests.servers.broker_process import free_port
from tests.waiting import eventually

from tidelog.config.broker import BrokerConfig
from tidelog.node.environment import Environment
from tidelog.node.node import Node
from tidelog.runtime.system import SYSTEM, System


def ask(port: int, path: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def is_taken(port: int) -> bool:
    """Whether the port is open; the connection waits to be accepted."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def config_of(path: Path, **settings: str) -> BrokerConfig:
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerConfig.from_mapping({"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", **texts})


async def test_a_node_that_takes_long_to_start_is_alive_and_not_ready(tmp_path: Path) -> None:
    own, other, port = free_port(), free_port(), free_port()
    config = config_of(
        tmp_path,
        admin_listen=f"127.0.0.1:{port}",
        listeners=f"PLAINTEXT://127.0.0.1:{own}",
        controller_quorum_voters=f"1@127.0.0.1:{own},2@127.0.0.1:{other}",
    )
    node = Node(config)
    # The other voter never comes.
    starting = asyncio.create_task(node.start())
    await eventually(lambda: is_taken(port) or starting.done(), "the admin port is open")
    assert not starting.done()
    assert await asyncio.to_thread(ask, port, "/healthz") == (
        200,
        {"status": "ok", "partitions": 0, "offline_partitions": 0},
    )
    assert await asyncio.to_thread(ask, port, "/readyz") == (503, {"ready": False})
    assert not starting.done()
    starting.cancel()
    await asyncio.wait((starting,))
    with pytest.raises(OSError):
        await asyncio.to_thread(ask, port, "/healthz")


async def test_what_a_node_holds_is_shown_at_a_scrape(tmp_path: Path) -> None:
    node = Node(config_of(tmp_path))
    await node.start()
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", node.port)
        writer.write((1000).to_bytes(4, "big") + bytes(10))
        await eventually(lambda: node.metrics.sample_node().in_flight_bytes == 14, "the bytes of a part of a frame")
        writer.close()
    finally:
        await node.stop()


async def test_the_loop_runs_on_while_a_thread_keeps_a_node_from_stopping(tmp_path: Path) -> None:
    started: list[Executor] = []

    def start_threads(count: int) -> Executor:
        started.append(SYSTEM.start_threads(count))
        return started[0]

    port = free_port()
    environment = Environment(system=System(start_threads=start_threads))
    node = Node(config_of(tmp_path, admin_listen=f"127.0.0.1:{port}"), environment)
    await node.start()
    assert await asyncio.to_thread(ask, port, "/readyz") == (200, {"ready": True})
    release = threading.Event()
    started[0].submit(release.wait, 60)
    stopping = asyncio.create_task(node.stop())
    began_s = time.monotonic()
    try:
        await asyncio.wait((stopping,), timeout=1)
        assert not stopping.done()
        assert time.monotonic() - began_s < 30, "whoever waits for a stop can give it up"
    finally:
        release.set()
    await stopping
