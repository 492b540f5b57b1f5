"""A local cluster that cannot start says why once, not once for every node."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.cli.command import Command


@pytest.fixture
def command() -> Command:
    return Command("127.0.0.1:1")


def test_a_port_in_use(command: Command, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for start in (("cluster", "start"), ("serve",)):
            refused = command(*start, "--nodes", "2", "--data", str(tmp_path / "new"), "--listen", address, fails=True)
            assert f"cannot listen on {address}: the port is in use" in refused.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-o", "nope=1"), "-o nope: unknown setting nope"),
        (("--log-level", "loud"), "--log-level: Invalid value loud"),
        (("--listen", "127.0.0.1:65535"), "there is no port 65536"),
    ],
)
def test_wrong_settings(command: Command, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    data = str(tmp_path / "new")
    assert words in command("cluster", "start", "--nodes", "2", "--data", data, *arguments, fails=True).err


def test_a_file_in_the_place_of_the_data(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = command("cluster", "start", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "file"), fails=True)
    assert "cannot be made: File exists" in refused.err


def test_a_setting_that_only_the_nodes_refuse_leaves_nothing_behind(command: Command, tmp_path: Path) -> None:
    data = tmp_path / "new" / "deep"
    given = ("--nodes", "2", "--data", str(data), "--listen", "127.0.0.1:0", "-o", "cordoned.log.dirs=x")
    process = command.start("cluster", "start", *given)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"cordoned.log.dirs is set at run time" in errors
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("verb", [("serve",), ("cluster", "start")])
@pytest.mark.parametrize(
    ("variable", "name"),
    [("TIDELOG_ADMIN_LISTEN", "admin.listen"), ("TIDELOG_ADVERTISED_LISTENERS", "advertised.listeners")],
)
def test_a_variable_that_nodes_cannot_share(
    command: Command, tmp_path: Path, verb: tuple[str, ...], variable: str, name: str
) -> None:
    command.environment[variable] = "127.0.0.1:9644"
    refused = command(*verb, "--nodes", "2", "--data", str(tmp_path / "new"), "--listen", "127.0.0.1:0", fails=True).err
    assert f"{variable}: several nodes cannot share {name}" in refused
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("flag", "name"), [("--admin", "admin.listen"), ("--advertise", "advertised.listeners")])
def test_a_flag_that_nodes_cannot_share(command: Command, tmp_path: Path, flag: str, name: str) -> None:
    given = ("--nodes", "2", "--data", str(tmp_path / "new"), "--listen", "127.0.0.1:0", flag, "127.0.0.1:9644")
    assert f"{flag}: several nodes cannot share {name}" in command("serve", *given, fails=True).err


@pytest.mark.parametrize("name", ["http", "grpc"])
def test_a_door_that_nodes_cannot_share_names_the_flag_that_counts_up(
    command: Command, tmp_path: Path, name: str
) -> None:
    given = ("--nodes", "2", "--data", str(tmp_path / "new"), "--listen", "127.0.0.1:0")
    refused = command("serve", *given, "-o", f"{name}.listen=127.0.0.1:8080", fails=True).err
    assert f"give --{name}, whose ports count up" in refused
    assert f"--{name}: " in command("cluster", "start", *given, f"--{name}", "8080", fails=True).err
