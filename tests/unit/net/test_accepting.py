"""Connections are taken many at a time, and a system that has no room for more is asked again later."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import cast

import pytest
from tests.waiting import eventually

from tidelog.net import accepting
from tidelog.net.accepting import ACCEPTED_PER_TURN_MAX, Acceptor

CLIENTS = ACCEPTED_PER_TURN_MAX * 3 + 1


class Counted(asyncio.BufferedProtocol):
    """Counts connections and ends them."""

    opened = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        type(self).opened += 1
        peer: socket.socket = transport.get_extra_info("socket")
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        cast(asyncio.Transport, transport).abort()


@pytest.fixture(autouse=True)
def _count_from_zero() -> None:
    Counted.opened = 0


async def connect_all(port: int, count: int) -> list[socket.socket]:
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(count):
        client = socket.socket()
        client.setblocking(False)
        try:
            await loop.sock_connect(client, ("127.0.0.1", port))
        except ConnectionRefusedError:
            client.close()
            raise
        clients.append(client)
    return clients


async def opened(count: int) -> None:
    await eventually(lambda: Counted.opened >= count, f"{count} connections")
    # What was aborted is closed in the next turn of the loop.
    await asyncio.sleep(0)


async def test_a_burst_is_taken_and_nobody_before_the_start() -> None:
    acceptor = Acceptor(lambda accepted: Counted(), CLIENTS)
    _, port = await acceptor.bind("127.0.0.1", 0)
    with pytest.raises(ConnectionRefusedError):
        await connect_all(port, 1)
    acceptor.start()
    clients = await connect_all(port, CLIENTS)
    await opened(CLIENTS)
    acceptor.close()
    for client in clients:
        client.close()
    with pytest.raises(ConnectionRefusedError):
        await connect_all(port, 1)


async def test_a_name_with_several_addresses_is_listened_on_at_all_of_them() -> None:
    acceptor = Acceptor(lambda accepted: Counted(), 8)
    await acceptor.bind("", 0)
    assert len(acceptor._sockets) == len({listening.family for listening in acceptor._sockets})
    acceptor.close()


async def test_without_descriptors_it_waits_and_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "RETRY_S", 0.01)
    acceptor = Acceptor(lambda accepted: Counted(), 8)
    _, port = await acceptor.bind("127.0.0.1", 0)

    class Exhausted(socket.socket):
        refusals = 3

        def accept(self) -> tuple[socket.socket, object]:
            if Exhausted.refusals:
                Exhausted.refusals -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    bound = acceptor._sockets[0]
    acceptor._sockets[0] = Exhausted(bound.family, bound.type, bound.proto, fileno=bound.detach())
    acceptor.start()
    [client] = await connect_all(port, 1)
    await opened(1)
    assert Exhausted.refusals == 0
    acceptor.close()
    client.close()
