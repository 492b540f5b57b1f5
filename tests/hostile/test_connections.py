"""Many connections that do nothing, or everything slowly: others are served, memory stays bounded."""

from __future__ import annotations

import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.hostile.conftest import MEBIBYTE, Bystander, serve_for
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic, fetch_request, list_offset, produce_request, produce_values
from tests.servers.wire import Connection, NewRecord, build_batch

pytestmark = pytest.mark.usefixtures("bounded_memory")


def connection_count(wanted: int) -> int:
    """As many as both sides may open here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(wanted, hard - 500)


def open_many(victim: BrokerProcess, stack: ExitStack, count: int) -> list[socket.socket]:
    return [stack.enter_context(socket.create_connection(("127.0.0.1", victim.port), timeout=60)) for _ in range(count)]


def test_thousands_of_idle_connections(victim: BrokerProcess, bystander: Bystander, sockets: ExitStack) -> None:
    count = connection_count(3000)
    before = victim.rss_bytes()
    open_many(victim, sockets, count)
    serve_for(bystander, 1)
    per_connection = (victim.rss_bytes() - before) / count
    assert per_connection < 64 * 1024 or victim.kind == "kafka"


def test_requests_that_arrive_byte_by_byte(victim: BrokerProcess, bystander: Bystander, sockets: ExitStack) -> None:
    request = struct.pack(">ihhih", 11, 18, 0, 1, 1) + b"x"
    connections = open_many(victim, sockets, 500)
    for position in range(len(request)):
        for connection in connections:
            connection.sendall(request[position : position + 1])
    serve_for(bystander, 0.5)
    for connection in connections[:20]:
        [size] = struct.unpack(">i", connection.recv(4))
        assert size > 4


def test_large_requests_that_never_end(victim: BrokerProcess, bystander: Bystander, sockets: ExitStack) -> None:
    """A hundred connections announce 90 MiB each and send a little of it."""
    for connection in open_many(victim, sockets, 100):
        connection.sendall(struct.pack(">i", 90 * MEBIBYTE) + b"\0" * 100_000)
    serve_for(bystander, 1)


def test_readers_that_do_not_read(
    victim: BrokerProcess, bystander: Bystander, sockets: ExitStack, connection_to_victim: Connection
) -> None:
    """Fifty clients ask for 20 MiB a hundred times each and take nothing."""
    topic = create_topic(connection_to_victim, "unread", configs={"max.message.bytes": "2000000"})
    for _ in range(20):
        produce_values(connection_to_victim, topic, b"v" * MEBIBYTE)
    body = fetch_request(topic, 0).encode(11)
    for number in range(50):
        reader = sockets.enter_context(Connection(victim.port))
        frame = reader.frame(1, 11, body)
        reader.socket.setblocking(False)
        data = (struct.pack(">i", len(frame)) + frame) * 100
        try:
            reader.socket.send(data)
        except BlockingIOError:
            assert number > 0
    serve_for(bystander, 2)


def test_a_pipeline_of_requests_whose_answers_nobody_takes(
    victim: BrokerProcess, bystander: Bystander, sockets: ExitStack
) -> None:
    """As many Metadata requests as the socket takes; the broker must stop reading rather than collect answers."""
    reader = sockets.enter_context(Connection(victim.port))
    reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    frame = reader.frame(3, 1, b"\xff\xff\xff\xff")
    data = (struct.pack(">i", len(frame)) + frame) * 1000
    reader.socket.settimeout(2)
    sent = 0
    try:
        while sent < 64 * MEBIBYTE:
            sent += reader.socket.send(data)
    except TimeoutError:
        pass
    assert sent < 64 * MEBIBYTE, "the broker reads on although its answers are not taken"
    serve_for(bystander, 1)


def test_a_pipeline_of_produce_requests_is_answered_in_order(
    victim: BrokerProcess, bystander: Bystander, connection_to_victim: Connection
) -> None:
    topic = create_topic(connection_to_victim, "pipeline")
    body = produce_request(topic, build_batch([NewRecord(b"v" * 1000)]), acks=1).encode(7)
    with Connection(victim.port) as writer:
        frames = [writer.frame(0, 7, body) for _ in range(2000)]
        writer.send_bytes(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
        correlation_ids = [struct.unpack(">i", writer.receive_frame()[:4])[0] for _ in range(2000)]
    assert correlation_ids == list(range(1, 2001))
    assert list_offset(connection_to_victim, topic, 0, -1)[2] == 2000


def test_connections_that_come_and_go(victim: BrokerProcess, bystander: Bystander) -> None:
    for _ in range(2000):
        socket.create_connection(("127.0.0.1", victim.port), timeout=60).close()
    serve_for(bystander, 0.5)


@pytest.fixture
def connection_to_victim(victim: BrokerProcess) -> Iterator[Connection]:
    with Connection(victim.port) as opened:
        yield opened
