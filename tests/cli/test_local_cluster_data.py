"""Data that is there when a local cluster is started: kept, grown, or refused in one line; never out of sight."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.command import Command
from tests.servers.broker_process import free_ports
from tests.servers.http import get

STOP_S = 60.0


@contextmanager
def running(data: Path, *arguments: str, stop: int = signal.SIGINT) -> Iterator[Command]:
    process = Command("").start(*arguments, "--data", str(data), "--listen", "127.0.0.1:0")
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        found = re.search(r"ready on ([0-9.:,]+), (?:http on [0-9.:,]+, )?data in", line)
        assert found is not None, line or process.communicate(timeout=STOP_S)
        yield Command(found[1].split(",")[-1])
    finally:
        process.send_signal(stop)
        process.communicate(timeout=STOP_S)


def read(command: Command) -> list[str]:
    return command("consume", "kept", "--offset", "earliest", "--max", "1").out.split()[-1:]


def nodes(command: Command) -> list[int]:
    return [node["node_id"] for node in command("cluster", "status", "--json").json["nodes"]]


def refused(data: Path, *arguments: str) -> str:
    return Command("")(*arguments, "--data", str(data), "--listen", "127.0.0.1:0", fails=True).err


def test_a_single_node_becomes_a_cluster_and_keeps_its_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "serve", stop=signal.SIGKILL) as command:
        command("topics", "create", "kept")
        command("produce", "kept", stdin=b"first\n")
        cluster_id = command("cluster", "status", "--json").json["cluster_id"]
    with running(data, "serve", "--nodes", "1") as command:
        assert read(command) == ["first"]
    with running(data, "serve") as command:
        assert read(command) == ["first"]
    with running(data, "serve", "--nodes", "2") as command:
        assert read(command) == ["first"]
        assert nodes(command) == [1, 2]
        assert command("cluster", "status", "--json").json["cluster_id"] == cluster_id
    assert "start it with --nodes 2" in refused(data, "serve")
    assert "start it with --nodes 2" in refused(data, "serve", "--nodes", "1")


def test_a_local_cluster_grows(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "cluster", "start", "--nodes", "1") as command:
        command("topics", "create", "kept")
        command("produce", "kept", stdin=b"first\n")
        cluster_id = command("cluster", "status", "--json").json["cluster_id"]
    with running(data, "cluster", "start", "--nodes", "3") as command:
        assert read(command) == ["first"]
        assert nodes(command) == [1, 2, 3]
        assert command("cluster", "status", "--json").json["cluster_id"] == cluster_id


@pytest.mark.parametrize("command", [("serve",), ("serve", "--nodes", "2")], ids=["one", "several"])
def test_wrong_directories(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "photos" / "sea").mkdir(parents=True)
    assert "photos is no data directory of Tidelog" in refused(tmp_path / "photos", *command)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "meta.properties").write_bytes(b"\xff\xff")
    assert "meta.properties is damaged" in refused(tmp_path / "damaged", *command)


@pytest.mark.parametrize("command", [("serve",), ("cluster", "start")], ids=["serve", "cluster"])
def test_every_node_has_its_http_door(tmp_path: Path, command: tuple[str, ...]) -> None:
    first = free_ports(2)[0]
    with running(tmp_path / "data", *command, "--nodes", "2", "--http", f"127.0.0.1:{first}"):
        for port in (first, first + 1):
            assert get(port, "/openapi.json").status == 200
