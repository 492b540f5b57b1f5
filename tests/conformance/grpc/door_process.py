"""`tidelog serve --grpc` as a process that can be ended and started again."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

from tests.servers.broker_process import BrokerProcess, free_port
from tests.servers.tidelog_node import spawn_tidelog, wait_until_ready

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "auto.create.topics.enable": "true",
}


class DoorProcess:
    """`port` is of the Kafka door, `grpc_port` of the gRPC door; None: it has none."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, *, port: int = 0, has_door: bool = True
    ) -> None:
        self.directory = directory
        self.settings = {**SETTINGS, **(settings or {})}
        self.port = port
        self.grpc_port = free_port() if has_door else None
        self.broker: BrokerProcess | None = None

    def start(self) -> None:
        """Returns when calls are answered; a second start keeps ports and data."""
        self.spawn()
        self.wait()

    def spawn(self) -> None:
        door = () if self.grpc_port is None else ("--grpc", f"127.0.0.1:{self.grpc_port}")
        arguments = ("--log-format", "json", *door)
        self.broker = spawn_tidelog(self.directory, self.port, settings=self.settings, arguments=arguments)

    def wait(self) -> None:
        assert self.broker is not None
        wait_until_ready(self.broker)
        self.port = self.broker.port

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.broker is not None:
            self.broker.process.send_signal(number)
            self.broker.process.wait(20)
            self.broker = None

    def log_text(self) -> str:
        return (self.directory / "output").read_text()
