"""Pipelines that are files, on the session of all pipeline tests and a node that tests here can stop."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.files.bench import Bench

from tidelog.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # Pytest hands out all items there are, those of other folders too.
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.timeout(300))
        # PySpark leaves it to the garbage collector to close the sockets to its JVM.
        item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
        item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def own_node() -> Iterator[Broker]:
    """A node in this process, which a test can stop and start."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def bench(spark: SparkSession, own_node: Broker, tmp_path: Path) -> Bench:
    return Bench(spark, own_node, tmp_path)


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[[str], Path]:
    """Puts a pipeline file into the test's directory."""

    def write(text: str) -> Path:
        path = tmp_path / "pipeline.yaml"
        path.write_text(textwrap.dedent(text))
        return path

    return write
