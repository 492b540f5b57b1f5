"""Fixtures for brokers that are killed, starved and started again on the same port and directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.servers.broker_process import BrokerProcess, free_port
from tests.servers.tidelog_node import start_tidelog


class Node:
    """One data directory and port, with the process that serves them at the moment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.broker: BrokerProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def running(self) -> BrokerProcess:
        assert self.broker is not None
        return self.broker

    def start(self, arguments: Sequence[str] = (), **settings: str) -> BrokerProcess:
        """Underscores in the names of settings stand for dots."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.broker = start_tidelog(self.directory, port=self.port, settings=named, arguments=arguments)
        return self.broker

    def kill(self) -> None:
        self.running.kill()

    def segment_files(self, topic: str, suffix: str, partition: int = 0) -> list[Path]:
        return sorted((self.data / f"{topic}-{partition}").glob(f"*{suffix}"))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    under_test = Node(tmp_path)
    yield under_test
    if under_test.broker is not None and under_test.broker.alive():
        under_test.broker.kill()


NodeFactory = Callable[[], Node]
