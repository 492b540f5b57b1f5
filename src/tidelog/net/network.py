"""The network as a node uses it: how it takes connections, and how it opens them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from tidelog.model.value import Value
from tidelog.net.accepting import Acceptor

NewConnection = Callable[[socket.socket | None], asyncio.BufferedProtocol]
"""Gets the socket that its transport will work on, where there is one."""


class AcceptsConnections(Protocol):
    """One address of a node."""

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Takes the address; raises OSError. Returns what it was bound to."""

    def start(self) -> None:
        """Connections are accepted from now on."""

    def close(self) -> None:
        """No more connections are accepted; those that are open stay open."""


async def connect(new_protocol: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> None:
    """Returns when the protocol has its connection; raises OSError."""
    await asyncio.get_running_loop().create_connection(new_protocol, host, port)


async def is_refused(host: str, port: int) -> bool:
    """Whether at least one address of the host refuses a connection, and none takes it; raises OSError."""
    loop = asyncio.get_running_loop()
    refused = False
    for family, kind, protocol, _, where in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as probe:
            probe.setblocking(False)
            try:
                await loop.sock_connect(probe, where)
            except ConnectionRefusedError:
                refused = True
            except OSError:
                # An address this machine has no way to says nothing.
                continue
            else:
                return False
    return refused


def draw_share() -> float:
    return os.urandom(1)[0] / 256


class Network(Value):
    """The network of this machine, unless other functions are given."""

    new_acceptor: Callable[[NewConnection, int], AcceptsConnections] = Acceptor
    """Gets the backlog too."""
    connect: Callable[[Callable[[], asyncio.BaseProtocol], str, int], Awaitable[None]] = staticmethod(connect)
    is_refused: Callable[[str, int], Awaitable[bool]] = staticmethod(is_refused)
    draw_share: Callable[[], float] = staticmethod(draw_share)
    """From 0 up to 1, by chance: how much longer a client waits before it connects again, so that not all of them come
    back at once."""


NETWORK = Network()
"""The network of the machine that this process runs on."""
