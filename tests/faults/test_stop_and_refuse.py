"""Stopping under load, and starts that must be refused with one clear line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.faults.conftest import Node
from tests.faults.load import SteadyLoad, check_promises, read_log
from tests.servers.tidelog_node import serve_command, serve_environment
from tests.servers.topics import create_topic, fetch_request
from tests.servers.wire import Connection
from tests.waiting import wait_until

STOP_SECONDS_MAX = 15.0


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_a_stop_under_load_is_quick_and_loses_nothing(node: Node, idempotent: bool) -> None:
    node.start()
    with Connection(node.port) as connection:
        topic = create_topic(connection, "stop")
    load = SteadyLoad(node.bootstrap, topic, idempotent=idempotent)
    load.start()
    for _ in range(2):
        before = len(load.acknowledged)
        wait_until(lambda: len(load.acknowledged) > before + 200, "records are acknowledged", 60)  # noqa: B023
        assert node.running.stop() < STOP_SECONDS_MAX
        assert node.running.process.returncode == 0
        node.start()
    load.stop()
    assert len(load.acknowledged) == load.sent
    check_promises(load, read_log(node.port, topic), once=idempotent)


def test_a_stop_does_not_wait_for_clients_that_wait(node: Node) -> None:
    """Long polls and idle connections end with the node."""
    node.start()
    with Connection(node.port) as connection, Connection(node.port) as waiting:
        topic = create_topic(connection, "waits")
        waiting.send_frame(waiting.frame(1, 11, fetch_request(topic, 0, max_wait_ms=60_000).encode(11)))
        assert node.running.stop() < STOP_SECONDS_MAX
    assert node.running.process.returncode == 0


def refused(data: Path, *arguments: str) -> str:
    """What `tidelog serve` says when it does not start; it must be one line."""
    done = subprocess.run(
        [*serve_command(data), *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env=serve_environment(),
    )
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert done.stdout == ""
    return lines[0]


def test_a_directory_in_use(node: Node) -> None:
    broker = node.start()
    line = refused(node.data)
    assert str(node.data) in line
    assert broker.alive()
    with Connection(node.port) as connection:
        create_topic(connection)


def test_a_directory_of_another_node(node: Node) -> None:
    node.start(["--node-id", "1"])
    node.running.stop()
    line = refused(node.data, "--node-id", "2")
    assert "1" in line
    assert "2" in line
    node.start(["--node-id", "1"])


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("not a directory")
    assert str(path) in refused(path)
    assert str(path) in refused(path / "below")


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if os.geteuid() != 0:
        data.chmod(0o500)
        assert str(data) in refused(data)
        return
    # Root may write anywhere but on a file system that is mounted for reading only.
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(data)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not allow mounts")
    try:
        assert str(data) in refused(data)
    finally:
        subprocess.run(["umount", str(data)], check=True)


def test_a_port_in_use(node: Node, tmp_path: Path) -> None:
    node.start()
    line = refused(tmp_path / "other", "--listen", node.bootstrap)
    assert str(node.port) in line


@pytest.mark.parametrize("option", ["no.such.setting=1", "num.partitions=many", "log.retention.ms=-5", "nonsense"])
def test_a_wrong_setting(tmp_path: Path, option: str) -> None:
    line = refused(tmp_path / "data", "-o", option)
    assert option.partition("=")[0] in line
