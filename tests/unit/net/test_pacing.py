"""Which peers are paced: those on other machines, as the administrator has chosen, and none on this one."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from tidelog.net.pacing import is_loopback, resume_pacing, stop_pacing


def congestion_control(connected: socket.socket) -> bytes:
    return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def choose(listening: socket.socket, name: bytes) -> None:
    try:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
    except OSError:
        pytest.skip(f"this kernel has no {name.decode()}, or does not let us choose it")


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    if sys.platform != "linux":
        pytest.skip("congestion control is chosen on Linux only")
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_connection_from_this_machine_is_never_paced(listening: socket.socket) -> None:
    choose(listening, b"bbr")
    assert stop_pacing(listening) == b"bbr"
    with socket.create_connection(listening.getsockname()):
        accepted, (host, _) = listening.accept()
        with accepted:
            resume_pacing(accepted, host, b"bbr")
            assert congestion_control(accepted) == b"reno"


def test_a_connection_from_elsewhere_gets_what_was_chosen(listening: socket.socket) -> None:
    choose(listening, b"bbr")
    chosen = stop_pacing(listening)
    assert chosen is not None
    with socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            resume_pacing(accepted, "192.0.2.1", chosen)
            assert congestion_control(accepted) == b"bbr"


def test_what_does_not_pace_is_left_alone(listening: socket.socket) -> None:
    choose(listening, b"reno")
    assert stop_pacing(listening) is None
    assert congestion_control(listening) == b"reno"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::2", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
