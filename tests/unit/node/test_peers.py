"""Whether a node is gone: only a port that refuses says so."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.metadata.image import MetadataImage
from tidelog.net.network import NETWORK, Network
from tidelog.node import peers as module
from tidelog.node.peers import Peers


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine that is closed."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


def is_gone(host: str, port: int, is_refused: Callable[[str, int], Awaitable[bool]] = NETWORK.is_refused) -> bool:
    network = Network(is_refused=is_refused)
    peers = Peers(BrokerConfig(node_id=1), lambda: MetadataImage(cluster_id="c"), {2: (host, port)}, network)
    return asyncio.run(peers.is_gone(2))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_listens(port: int, host: str) -> None:
    assert is_gone(host, port)


def test_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not is_gone("127.0.0.1", listener.getsockname()[1])


def test_a_listener_that_ends_a_moment_later_is_noticed() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    looks = 0

    async def close_after(host: str, port: int) -> bool:
        nonlocal looks
        looks += 1
        found = await NETWORK.is_refused(host, port)
        listener.close()
        return found

    assert is_gone("127.0.0.1", port, close_after)
    assert looks == 2


def test_silence_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(host: str, port: int) -> bool:
        await asyncio.sleep(3600)
        return True

    monkeypatch.setattr(module, "LOOK_SECONDS_MAX", 0.01)
    assert not is_gone("127.0.0.1", 1, hang)


def test_a_name_that_cannot_be_found_says_nothing() -> None:
    async def fail(host: str, port: int) -> bool:
        raise socket.gaierror("unknown")

    assert not is_gone("nowhere", 1, fail)


def test_a_node_nobody_knows_is_not_gone() -> None:
    peers = Peers(BrokerConfig(node_id=1), lambda: MetadataImage(cluster_id="c"), {})
    assert not asyncio.run(peers.is_gone(2))
