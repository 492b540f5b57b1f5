"""Three nodes of which some run this version and some 0.1.0, the one before it, from this checkout's history."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import pytest
from tests.cli.command import TIDELOG
from tests.servers.broker_process import free_ports

COMMIT_BEFORE = "d925425"
"""The last commit of 0.1.0."""
START_SECONDS_MAX = 60.0
ROOT = Path(__file__).parents[2]


def unpack_source_before(directory: Path) -> Path:
    """The sources of 0.1.0. Skips the test where the history does not reach back that far."""
    archive = directory / "source.tar"
    made = subprocess.run(
        ["git", "archive", "--output", str(archive), COMMIT_BEFORE, "src"], cwd=ROOT, capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"the history of this checkout does not reach back to {COMMIT_BEFORE}")
    with tarfile.open(archive) as opened:
        opened.extractall(directory, filter="data")
    return directory / "src"


class MixedCluster:
    """Nodes 1 to 3; the second and the third join the first. Stopped in the end, whatever happened to them."""

    def __init__(self, data: Path, source_before: Path, arguments: Iterable[str] = ()) -> None:
        """`arguments` are added to every `tidelog serve`."""
        self._data = data
        self._source_before = source_before
        self._arguments = list(arguments)
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
        self._processes: dict[int, subprocess.Popen[str]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses)

    def start(self, node_id: int, *, before: bool) -> str:
        """The line with which the node says that it is ready."""
        line: str = self._launch(node_id, before=before).stdout.readline()  # type: ignore[union-attr]
        assert "ready on" in line, self._processes[node_id].communicate()
        return line

    def refused(self, node_id: int, *, before: bool) -> str:
        """What a node says that does not start."""
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
            [*TIDELOG, *arguments, "--log-level", "error", *self._arguments],
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.communicate(timeout=START_SECONDS_MAX)
