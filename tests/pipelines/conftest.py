"""One node and one Spark for all tests of this folder: a JVM takes longer to start than most tests take."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.driver import SHORT_LIVED
from tests.servers.broker_process import BrokerProcess
from tests.servers.target import OLD_RECORDS_STAY
from tests.servers.tidelog_node import start_tidelog
from tests.servers.tools import missing

from tidelog.pipelines.errors import MissingRequirement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves the closing of its sockets to the garbage collector, in whatever test that runs."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


SMALL = {"spark.driver.memory": "1g", "spark.sql.streaming.stateStore.maintenanceInterval": "600s"}


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A Tidelog node as a process of its own."""
    with start_tidelog(tmp_path_factory.mktemp("node"), settings=OLD_RECORDS_STAY) as process:
        yield process
        assert process.alive(), f"the node ended while it was tested: {process.log_text()[-2000:]}"


@pytest.fixture(scope="session")
def bootstrap(node: BrokerProcess) -> str:
    return node.bootstrap


@pytest.fixture(scope="session")
def requirements() -> None:
    """Java, PySpark and the jars; where one is missing the test is skipped by name, and fails on CI."""
    from tidelog.pipelines.spark.jars import jar_paths, pinned_jars
    from tidelog.pipelines.spark.java import find_java

    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)
    try:
        import pyspark  # noqa: F401
    except ImportError:
        missing("pyspark (pip install 'tidelog[spark]')")
    try:
        find_java()
        jar_paths(pinned_jars(("delta", "iceberg")))
    except MissingRequirement as error:
        missing(str(error))


@pytest.fixture(scope="session")
def spark(requirements: None) -> Iterator[SparkSession]:
    from tidelog.pipelines import session

    running = session("local[2]", tables=("delta", "iceberg"), config=SMALL)
    yield running
    running.stop()


@pytest.fixture
def make_topic(bootstrap: str) -> Callable[..., str]:
    """Makes a topic of the test's own: `make_topic(partitions=3)`."""
    from confluent_kafka.admin import AdminClient, NewTopic

    # Its futures end with it, so it has to outlive them.
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def make(prefix: str = "topic", partitions: int = 1) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:12]}"
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
        return name

    return make


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
