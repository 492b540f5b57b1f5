"""One network and one JVM for all documents, which are read one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.documents.network import Network, NoNetwork
from tests.documents.reader import Reader
from tests.documents.shared_jvm import SharedJvm
from tests.servers.tools import missing


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    try:
        with Network() as made:
            yield made
    except NoNetwork as error:
        missing(str(error))


@pytest.fixture(scope="session")
def jvm(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedJvm]:
    made = SharedJvm(network.enter, tmp_path_factory.mktemp("copy"))
    yield made
    made.close()


@pytest.fixture
def reader(network: Network, jvm: SharedJvm) -> Iterator[Reader]:
    """A reader of this repository."""
    made = Reader(Path(__file__).parents[2], network, jvm)
    yield made
    made.close()
