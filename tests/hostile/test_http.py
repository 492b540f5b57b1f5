"""An HTTP door under attack: its memory stays bounded, and clients of the Kafka door are served all the while."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.hostile.conftest import MEBIBYTE, Bystander, serve_for
from tests.servers.broker_process import BrokerProcess, free_port
from tests.servers.http import get, post
from tests.servers.tidelog_node import start_tidelog

BUDGET_BYTES = 64 * MEBIBYTE
MEMORY_BYTES_MAX = 400 * MEBIBYTE
"""What an attack may cost at its peak."""

HEAD = b"POST /topics/attacked/partitions/0 HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture(scope="module")
def door() -> int:
    return free_port()


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory, door: int) -> Iterator[BrokerProcess]:
    settings = {
        "http.listen": f"127.0.0.1:{door}",
        "socket.request.max.bytes": str(32 * MEBIBYTE),
        "queued.max.request.bytes": str(BUDGET_BYTES),
        "message.max.bytes": str(2 * MEBIBYTE),
    }
    with start_tidelog(tmp_path_factory.mktemp("victim"), settings=settings) as broker:
        yield broker
        assert broker.alive(), f"the broker ended: {broker.log_text()[-2000:]}"


@pytest.fixture(autouse=True)
def bounded_memory(victim: BrokerProcess) -> Iterator[None]:
    victim.reset_rss_peak()
    before = victim.rss_bytes()
    yield
    grown = victim.rss_peak_bytes() - before
    assert grown < MEMORY_BYTES_MAX, f"{grown / MEBIBYTE:.0f} MiB more than before"


def open_many(door: int, stack: ExitStack, count: int) -> list[socket.socket]:
    return [stack.enter_context(socket.create_connection(("127.0.0.1", door), timeout=60)) for _ in range(count)]


def send_what_is_taken(connection: socket.socket, data: bytes) -> int:
    """How much of it was taken before the server stopped reading."""
    connection.setblocking(False)
    sent = 0
    try:
        while sent < len(data):
            sent += connection.send(data[sent:])
    except (BlockingIOError, ConnectionError):
        pass
    return sent


def test_idle_connections_cost_little(
    victim: BrokerProcess, door: int, bystander: Bystander, sockets: ExitStack
) -> None:
    before = victim.rss_bytes()
    open_many(door, sockets, 2000)
    serve_for(bystander, 0.5)
    assert (victim.rss_bytes() - before) / 2000 < 32 * 1024


def test_heads_that_never_end(door: int, bystander: Bystander, sockets: ExitStack) -> None:
    connections = open_many(door, sockets, 200)
    for connection in connections:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 50 + b"Long: " + b"z" * 20_000)
    for connection in connections[:100]:
        send_what_is_taken(connection, b"z" * 200_000)
    serve_for(bystander, 0.5)
    for connection in connections[:100]:
        connection.settimeout(30)
        assert connection.recv(100).startswith(b"HTTP/1.1 431 ")


def test_bodies_that_never_end(door: int, bystander: Bystander, sockets: ExitStack) -> None:
    """Each of them fits; all of them together are more than the node takes in at a time."""
    connections = open_many(door, sockets, 200)
    part = b"x" * MEBIBYTE
    for connection in connections:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (1 << 30))
        send_what_is_taken(connection, part)
    for _ in range(3):
        for connection in connections:
            send_what_is_taken(connection, part)
    time.sleep(0.5)
    # The node takes no more in, until it has given up what does not get on.
    for connection in connections:
        connection.close()
    serve_for(bystander, 0.5)


def test_requests_in_tiny_parts(door: int, bystander: Bystander, sockets: ExitStack) -> None:
    connections = open_many(door, sockets, 200)
    request = HEAD + b"Content-Length: 5\r\n\r\nhello"
    for position in range(len(request)):
        for connection in connections:
            connection.sendall(request[position : position + 1])
    serve_for(bystander, 0.2)
    for connection in connections:
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_pipelines_whose_answers_nobody_reads(door: int, bystander: Bystander, sockets: ExitStack) -> None:
    post(door, "/topics/unread/partitions/0", b"x" * 500_000)
    request = b"GET /topics/unread/partitions/0/fetch HTTP/1.1\r\nHost: a\r\n\r\n"
    for connection in open_many(door, sockets, 100):
        send_what_is_taken(connection, request * 1000)
    serve_for(bystander, 1)


def test_garbage_is_refused_and_logged_a_few_times(
    victim: BrokerProcess, door: int, bystander: Bystander, sockets: ExitStack
) -> None:
    for connection in open_many(door, sockets, 300):
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00" * 20)
    serve_for(bystander, 0.2)
    assert victim.log_text().count("\n") < 50


def test_json_bombs(door: int, bystander: Bystander) -> None:
    for body in (b"[" * 10_000_000, b'{"records": [' + b'"",' * 3_000_000 + b'""]}'):
        answer = post(door, "/topics/attacked/partitions/0/batch", body)
        assert 400 <= answer.status < 500, answer
    serve_for(bystander, 0.2)
    assert get(door, "/docs").status == 200
