"""`tidelog cluster upgrade` through a rolling upgrade of real nodes from 0.1.0, which does not know the feature."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import TIDELOG, Command
from tests.waiting import wait_until

from tidelog.testing.broker import Broker
from tidelog.testing.cluster_node import find_free_port

COMMIT_BEFORE = "d925425"
"""0.1.0, the last version without `tidelog.version`."""
START_SECONDS_MAX = 60.0
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def source_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("before")
    archive = directory / "source.tar"
    made = subprocess.run(
        ["git", "archive", "--output", str(archive), COMMIT_BEFORE, "src"], cwd=ROOT, capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"the history of this checkout does not reach back to {COMMIT_BEFORE}")
    with tarfile.open(archive) as opened:
        opened.extractall(directory, filter="data")
    return directory / "src"


class Nodes:
    """Three nodes, each of them of one version or the other."""

    def __init__(self, data: Path, source_before: Path) -> None:
        self._data = data
        self._source_before = source_before
        self.addresses = [f"127.0.0.1:{find_free_port()}" for _ in range(3)]
        self._processes: dict[int, subprocess.Popen[str]] = {}

    def start(self, node_id: int, *, before: bool) -> None:
        line = self._launch(node_id, before=before).stdout.readline()  # type: ignore[union-attr]
        assert "ready on" in line, self._processes[node_id].communicate()

    def refused(self, node_id: int, *, before: bool) -> str:
        out, error = self._launch(node_id, before=before).communicate(timeout=START_SECONDS_MAX)
        assert self._processes.pop(node_id).returncode, out
        return error

    def _launch(self, node_id: int, *, before: bool) -> subprocess.Popen[str]:
        address = self.addresses[node_id - 1]
        arguments = ["serve", "--node-id", str(node_id), "--listen", address, "--data", str(self._data / str(node_id))]
        if node_id > 1:
            arguments += ["--join", self.addresses[0]]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
        environment["TIDELOG_COMPILED"] = "0"
        if before:
            environment["PYTHONPATH"] = str(self._source_before)
        process = self._processes[node_id] = subprocess.Popen(
            [*TIDELOG, *arguments, "--log-level", "error"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        return process

    def stop(self, node_id: int) -> None:
        process = self._processes.pop(node_id)
        process.terminate()
        process.communicate(timeout=START_SECONDS_MAX)

    def stop_all(self) -> None:
        for node_id in list(self._processes):
            self.stop(node_id)

    def command(self, node_id: int) -> Command:
        """Asks this node."""
        return Command(self.addresses[node_id - 1])

    def until_alive(self, node_id: int) -> None:

        def states() -> list[str]:
            nodes = self.command(node_id)("cluster", "status", "--json").json["nodes"]
            return [node["state"] for node in nodes]

        wait_until(lambda: states() == ["alive"] * 3, "three nodes alive", interval_s=0.1)


@pytest.fixture
def nodes(tmp_path: Path, source_before: Path) -> Iterator[Nodes]:
    running = Nodes(tmp_path, source_before)
    try:
        yield running
    finally:
        running.stop_all()


def test_a_rolling_upgrade_ends_with_the_new_level(nodes: Nodes) -> None:
    for node_id in (1, 2, 3):
        nodes.start(node_id, before=True)
    nodes.until_alive(1)
    nodes.command(1)("topics", "create", "kept", "--partitions", "3", "--replication-factor", "3")
    refused = nodes.command(1)("cluster", "upgrade", fails=True)
    assert "this node does not know tidelog.version: upgrade it" in refused.err

    for node_id in (3, 2):
        nodes.stop(node_id)
        nodes.start(node_id, before=False)
        nodes.until_alive(node_id)
    nodes.command(1)("topics", "create", "made-by-both", "--replication-factor", "3")
    nodes.stop(1)
    for arguments in (("--dry-run",), ()):
        refused = nodes.command(3)("cluster", "upgrade", *arguments, fails=True)
        assert "cannot raise tidelog.version to 1" in refused.err
        assert "Broker 1 supports versions 0-0" in refused.err
    nodes.start(1, before=False)
    nodes.until_alive(1)

    command = nodes.command(2)
    assert "can be raised from 0 to 1" in command("cluster", "upgrade", "--dry-run").out
    assert "is raised from 0 to 1" in command("cluster", "upgrade").out
    again = command("cluster", "upgrade", "--json").json
    assert again == {"feature": "tidelog.version", "before": 1, "after": 1, "dry_run": False}
    assert set(nodes.command(1)("topics", "list").out.split()) >= {"kept", "made-by-both"}

    nodes.stop(3)
    assert "the cluster uses features this version does not know; upgrade it" in nodes.refused(3, before=True)
    nodes.start(3, before=False)
    nodes.until_alive(3)


def test_a_new_cluster_is_at_the_newest_level(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        said = Command(broker.bootstrap_servers)("cluster", "upgrade").out
    assert said == "tidelog.version is 1, the highest level this node supports\n"
