"""What the other tests of registries see, once more on one that people run: a single start for all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
from tests.pipelines.schema_registries import apicurio_registry
from tests.pipelines.test_keys import keep_the_schema_of_keys
from tests.pipelines.test_registry import read_through
from tests.pipelines.test_registry_writes import write_and_read_avro, write_and_read_protobuf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.java, pytest.mark.timeout(900)]
MakeTopic = Callable[..., str]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with apicurio_registry(tmp_path_factory.mktemp("registry")) as url:
        yield url


def test_versions_of_a_schema(spark: SparkSession, bootstrap: str, make_topic: MakeTopic, registry: str) -> None:
    read_through(registry, spark, bootstrap, make_topic())


def test_avro_is_written(spark: SparkSession, bootstrap: str, make_topic: MakeTopic, registry: str) -> None:
    write_and_read_avro(registry, spark, bootstrap, make_topic())


def test_protobuf_is_written(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, registry: str, tmp_path: Path
) -> None:
    write_and_read_protobuf(registry, spark, bootstrap, make_topic(), tmp_path)


@pytest.mark.parametrize("key_format", ["registry-avro", "registry-protobuf"])
def test_keys_keep_their_schema(
    spark: SparkSession,
    bootstrap: str,
    make_topic: MakeTopic,
    registry: str,
    checkpoint: str,
    tmp_path: Path,
    key_format: str,
) -> None:
    topics = make_topic(partitions=2), make_topic(partitions=5)
    keep_the_schema_of_keys(registry, spark, bootstrap, topics, checkpoint, tmp_path, key_format, shuffled=False)
