"""Numbered records of some keys into a topic, and the proof that each came out once."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from tests.pipelines.driver import Pipeline
from tests.pipelines.topics import Record, produce, read_all

from tidelog.pipelines import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = int(os.environ.get("TIDELOG_TEST_ROUNDS", "10"))
"""How often the long tests kill something."""


def fill(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    numbers = range(first, first + count)
    records = [Record(key=f"k{n % 31}".encode(), value=str(n).encode()) for n in numbers]
    produce(bootstrap, topic, records, **{"enable.idempotence": "true"})


def check(bootstrap: str, topic: str, count: int) -> None:
    """Every input once, and those of a key in their order."""
    written = read_all(bootstrap, topic)
    _check_values([record.value or b"" for record in written], count)
    for key in {record.key for record in written}:
        numbers = [int(record.value or b"") for record in written if record.key == key]
        assert numbers == sorted(numbers), key


def check_tables(spark: SparkSession, pipeline: Pipeline, count: int) -> None:
    """Every input once in every table."""
    for table_format in pipeline.tables:
        check_table(spark, pipeline.table(table_format), table_format, count)


def check_table(spark: SparkSession, path: str, table_format: str, count: int) -> None:
    rows = read_table(spark, path, format=table_format).select("value").collect()
    _check_values([bytes(row.value) for row in rows], count)


def _check_values(values: list[bytes], count: int) -> None:
    copies = Counter(values)
    assert copies == Counter(str(n).encode() for n in range(count)), (
        f"lost {count - len(copies)}, more than once {sum(n > 1 for n in copies.values())}"
    )
