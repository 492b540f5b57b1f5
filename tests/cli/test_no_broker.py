"""Every command that needs a broker says so in one line when there is none."""

from __future__ import annotations

import socket
import time

import pytest
from tests.cli.command import Command

from tidelog.testing.broker import Broker


@pytest.fixture
def nowhere() -> Command:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return Command(f"127.0.0.1:{taken.getsockname()[1]}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"],
        ["topics", "create", "t"],
        ["topics", "delete", "t", "--yes"],
        ["produce", "t", "--value", "v"],
        ["consume", "t"],
        ["consume", "t", "--group", "g"],
        ["config", "list"],
        ["config", "set", "topic", "t", "retention.ms=1"],
        ["groups", "list"],
        ["bench"],
    ],
)
def test_no_broker(nowhere: Command, arguments: list[str]) -> None:
    started = time.monotonic()
    done = nowhere(*arguments, fails=True)
    assert done.code == 1
    assert done.out == ""
    assert f"no broker answers at {nowhere.bootstrap} (connection refused); start one with `tidelog serve" in done.err
    assert time.monotonic() - started < 30


def test_a_server_that_is_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = Command(f"127.0.0.1:{server.getsockname()[1]}")("topics", "list", fails=True)
    assert "connected, but no Kafka answer within" in done.err


def test_an_address_that_is_none() -> None:
    assert Command("127.0.0.1:port")("topics", "list", fails=True).code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "create", "new"],
        ["produce", "there", "--value", "v"],
        ["consume", "there", "--offset", "earliest", "--max", "1"],
        ["consume", "there", "--group", "g", "--max", "1"],
    ],
)
def test_an_advertised_address_that_cannot_be_reached(arguments: list[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        advertised = f"127.0.0.1:{taken.getsockname()[1]}"
        with Broker({"advertised.listeners": advertised}) as broker:
            broker.create_topic("there")
            started = time.monotonic()
            refused = Command(f"127.0.0.1:{broker.port}")(*arguments, fails=True)
            assert f"node 1 at {advertised} (connection refused)" in refused.err
            assert "--advertise" in refused.err
            assert time.monotonic() - started < 30
