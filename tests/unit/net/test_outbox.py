"""Replies of one turn go out together, in order, whatever the sockets take at a time."""

from __future__ import annotations

import asyncio
import random
import select
import socket

import pytest
from tests.unit.net.serving import echo, frame, read_frame, run_scenario, serving, wait_until

from tidelog.model import limits
from tidelog.net.connection import Connection
from tidelog.net.listener import Listener
from tidelog.net.reply import CloseConnection, Reply

pytestmark = pytest.mark.usefixtures("loop_kind")


def answered(clients: list[socket.socket]) -> int:
    readable = select.poll()
    for client in clients:
        readable.register(client, select.POLLIN)
    return len(readable.poll(0))


@pytest.mark.parametrize("count", [2, limits.REPLIES_PER_BURST_MAX, 2 * limits.REPLIES_PER_BURST_MAX + 1])
def test_replies_of_a_turn_are_sent_together_but_nobody_waits_for_many_others(count: int) -> None:
    clients: list[socket.socket] = []
    seen: list[int] = []
    """How many were answered when a request was handled."""

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        seen.append(answered(clients))
        return data[start:]

    async def run() -> None:
        async with serving(dispatch) as (listener, _):
            clients.extend(socket.create_connection(("127.0.0.1", listener.port)) for _ in range(count))
            await wait_until(lambda: listener.connection_count == count)
            for number, client in enumerate(clients):
                client.sendall(frame(b"%08d" % number))
            await wait_until(lambda: answered(clients) == count)
            burst = limits.REPLIES_PER_BURST_MAX
            assert seen == [number // burst * burst for number in range(count)]
            for number, client in enumerate(clients):
                assert client.recv(100) == frame(b"%08d" % number)
                client.close()

    run_scenario(run)


def test_replies_that_the_socket_does_not_take_at_once_stay_in_order() -> None:
    rng = random.Random(7)
    sizes = [rng.choice((1, 100, 70_000, 400_000)) for _ in range(200)]

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        number = int(bytes(data[start:]))
        return b"%08d" % number + b"x" * sizes[number]

    async def run() -> None:
        async with serving(dispatch, send_buffer_bytes=65_536) as (listener, connect):
            reader, writer = await connect()
            for number in range(len(sizes)):
                writer.write(frame(b"%08d" % number))
            for number, size in enumerate(sizes):
                reply = await read_frame(reader)
                assert (int(reply[:8]), len(reply)) == (number, 8 + size)
                if rng.random() < 0.2:
                    await asyncio.sleep(0.001)
            assert listener.shared.budget.used_bytes == 0

    run_scenario(run)


def test_what_was_answered_is_sent_before_a_bad_request_closes_the_connection() -> None:
    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        if data[start:] == b"bad request":
            raise CloseConnection("malformed", "as the test wants it")
        return data[start:]

    async def run() -> None:
        async with serving(dispatch) as (_, connect):
            reader, writer = await connect()
            writer.write(frame(b"good request") + frame(b"bad request") + frame(b"never answered"))
            assert await read_frame(reader) == b"good request"
            assert await reader.read() == b""

    run_scenario(run)


def test_the_socket_of_a_connection_that_is_gone_cannot_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another connection may have its descriptor by then."""
    sockets: list[socket.socket] = []
    new_connection = Listener.new_connection

    def remember(listener: Listener, accepted: socket.socket | None) -> asyncio.BufferedProtocol:
        assert accepted is not None
        sockets.append(accepted)
        return new_connection(listener, accepted)

    monkeypatch.setattr(Listener, "new_connection", remember)

    async def run() -> None:
        async with serving(echo) as (listener, connect):
            reader, writer = await connect()
            writer.write(frame(b"good morning"))
            assert await read_frame(reader) == b"good morning"
            writer.close()
            await wait_until(lambda: listener.connection_count == 0)
            await asyncio.sleep(0)
            with pytest.raises(OSError, match="Bad file descriptor"):
                sockets[0].send(b"late")

    run_scenario(run)
