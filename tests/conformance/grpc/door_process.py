"""A node with a gRPC door as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers.broker_process import end_with_parent
from tests.waiting import wait_until

PROGRAM = Path(__file__).with_name("node_with_door.py")
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "auto.create.topics.enable": "true",
}


class DoorProcess:
    """`port` is of the Kafka door, `grpc_port` of the gRPC door."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.settings = {**SETTINGS, **(settings or {})}
        self.port = self.grpc_port = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when calls are answered; a second start keeps ports and data."""
        self.spawn()
        self.wait()

    def spawn(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        given = {**self.settings, "port": str(self.port), "grpc.port": str(self.grpc_port)}
        if self.port and "port" in self.settings:
            given["port"] = self.settings["port"]
        command = [sys.executable, str(PROGRAM), str(self.directory / "data")]
        with (self.directory / "ready").open("wb") as ready, (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *(f"{name}={value}" for name, value in given.items())],
                stdin=subprocess.DEVNULL,
                stdout=ready,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                preexec_fn=end_with_parent,
            )

    def wait(self) -> None:
        process = self.process
        assert process is not None
        ready = self.directory / "ready"
        wait_until(
            lambda: process.poll() is not None or ready.read_text().endswith("\n"), "a node with a gRPC door", 30
        )
        assert process.poll() is None, self.log_text()[-2000:]
        words = ready.read_text().split()
        self.port, self.grpc_port = int(words[1]), int(words[3])

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(20)
            self.process = None

    def log_text(self) -> str:
        return (self.directory / "log").read_text()
