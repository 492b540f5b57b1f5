"""A node with an HTTP door, for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers.broker_process import BrokerProcess, free_ports
from tests.servers.tidelog_node import start_tidelog
from tests.servers.wire import Connection


class HttpNode:
    def __init__(self, broker: BrokerProcess, http_port: int) -> None:
        self.broker = broker
        self.port = http_port
        """Of the HTTP door."""

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap


@pytest.fixture(scope="session")
def http_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpNode]:
    port = free_ports(1)[0]
    broker = start_tidelog(tmp_path_factory.mktemp("http"), settings={"http.listen": f"127.0.0.1:{port}"})
    try:
        yield HttpNode(broker, port)
        assert broker.alive(), broker.log_text()[-2000:]
    finally:
        broker.stop()


@pytest.fixture
def kafka_door(http_node: HttpNode) -> Iterator[Connection]:
    """A connection to the same node in Kafka's protocol."""
    connection = Connection(http_node.broker.port)
    yield connection
    connection.close()
