"""One node for all tests of a worker; each has topics and groups of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from tests.conformance.grpc.door_process import DoorProcess
from tests.conformance.grpc.stubs import Client

_numbers = count()


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorProcess]:
    process = DoorProcess(tmp_path_factory.mktemp("door"))
    process.start()
    yield process
    process.end()
    faults = [line for line in process.log_text().splitlines() if "Traceback" in line or '"error"' in line]
    assert not faults, process.log_text()[-3000:]


@pytest.fixture(scope="session")
def client(door: DoorProcess) -> Iterator[Client]:
    opened = Client(door.grpc_port)
    yield opened
    opened.close()


@pytest.fixture
def name() -> str:
    return f"name-{next(_numbers)}"


@pytest.fixture
def topic(client: Client, name: str) -> str:
    """With two partitions."""
    from tidelog.gateways.grpc.generated import mq_pb2

    client.mq.CreateTopic(mq_pb2.CreateTopicRequest(topic=name, partitions=2, replication_factor=1))
    return name


@pytest.fixture
def new_client(door: DoorProcess) -> Iterator[Callable[[], Client]]:
    """Clients with a connection of their own."""
    opened: list[Client] = []

    def connect() -> Client:
        opened.append(Client(door.grpc_port))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()
