"""A cluster of three whose nodes are in network namespaces, one each."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.faults.cluster.namespaces import Namespaces

PORT = 9092
NODES = (1, 2, 3)
CLIENTS = 9
"""The namespace of those who talk to the cluster: on the side of the majority, whoever is cut off."""
READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0


class NetworkedCluster:
    def __init__(self, network: Namespaces, data: Path, settings: dict[str, str]) -> None:
        self.network = network
        self._data = data
        self._settings = settings
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.network.address(node_id)}:{PORT}" for node_id in NODES)

    def start(self) -> None:
        voters = ",".join(f"{node_id}@{self.network.address(node_id)}:{PORT}" for node_id in NODES)
        for node_id in NODES:
            command = ["ip", "netns", "exec", self.network.name(node_id), sys.executable, "-m", "tidelog.cli.main"]
            command += ["serve", "--listen", f"{self.network.address(node_id)}:{PORT}", "--node-id", str(node_id)]
            command += ["--data", str(self._data / f"node-{node_id}"), "--log-level", "warning"]
            for name, value in {**self._settings, "controller.quorum.voters": voters}.items():
                command += ["-o", f"{name}={value}"]
            self._processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL))
        deadline_s = time.monotonic() + READY_SECONDS_MAX
        for process in self._processes:
            assert process.stdout is not None
            readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline_s - time.monotonic()))
            assert readable, "a node was not ready in time"
            assert process.stdout.readline(), "a node ended at start; its reason stands above"

    def stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
