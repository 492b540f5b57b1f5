"""What a node has to do with the door when it does not serve, or cannot."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.gateways.grpc import door as door_module
from tidelog.gateways.grpc.calls import peer_host, snake_case
from tidelog.gateways.grpc.door import GrpcDoor, GrpcListenError


def new_door(port: int = 0) -> GrpcDoor:
    return GrpcDoor("127.0.0.1", port)


def test_a_door_that_is_closed_imports_nothing() -> None:
    program = (
        "import sys; from tidelog.gateways.grpc.door import GrpcDoor; d = GrpcDoor('127.0.0.1', 0);"
        "heavy = [m for m in sys.modules if m.split('.')[0] in ('grpc', 'google') or 'generated' in m];"
        "print(heavy); d.bind(); print(sorted(m for m in sys.modules if m.startswith('grpc')))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["[]", "[]"]


async def test_an_address_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(GrpcListenError, match=rf"grpc.listen: cannot listen on 127.0.0.1:{port}: Address already"):
            new_door(port).bind()


async def test_two_doors_do_not_share_an_address() -> None:
    first = new_door()
    first.bind()
    with pytest.raises(GrpcListenError):
        new_door(first.port).bind()
    await first.close()
    again = new_door(first.port)
    again.bind()
    await again.close()


@pytest.mark.parametrize("turns", [0, 1, 5, 2000])
async def test_it_can_be_closed_at_any_point_of_its_start(turns: int) -> None:
    door = new_door()
    door.bind()
    dispatcher: Any = SimpleNamespace(services=None)
    door.serve(dispatcher, "PLAINTEXT")
    for _ in range(turns):
        await asyncio.sleep(0.0002)
    await door.close()
    again = new_door(door.port)
    again.bind()
    again.serve(dispatcher, "PLAINTEXT")
    await again.opened()
    await again.close()


async def test_an_address_that_is_lost_before_it_opens() -> None:
    door = new_door()
    door.bind()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        door.port = taken.getsockname()[1]
        dispatcher: Any = SimpleNamespace(services=None)
        door.serve(dispatcher, "PLAINTEXT")
        with pytest.raises(GrpcListenError, match="cannot listen"):
            await door.opened()
        await door.close()


@pytest.mark.parametrize("port", [-1, 65536])
def test_no_port_number(port: int) -> None:
    with pytest.raises(GrpcListenError, match="not a port number"):
        new_door(port).bind()


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "REQUIRED_PACKAGES", ("not_there.at.all",))
    with pytest.raises(GrpcListenError, match=r"pip install 'tidelog\[grpc\]'"):
        new_door().bind()


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:127.0.0.1:5000", "127.0.0.1"),
        ("ipv6:%5B::1%5D:5000", "::1"),
        ("ipv6:[::1]:5000", "::1"),
        ("unix:", ""),
    ],
)
def test_the_host_of_a_peer(peer: str, host: str) -> None:
    assert peer_host(peer) == host


def test_names_of_methods() -> None:
    assert [snake_case(name) for name in ("Produce", "DescribeTopicConfig")] == ["produce", "describe_topic_config"]
