"""The cases: a topic into a table and into a topic, by Spark's plain connector and by Tidelog's functions.

Both run as a stream that takes what is there (`available-now`) with a checkpoint, in one Spark session; the plain
side is what a user writes without this package: the connector, Spark's file sink, Delta's sink, the connector's own
topic sink.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.pipelines import read_topic, write_table, write_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUN_TIMEOUT_S = 1800


class Shape(NamedTuple):
    """Records of a source topic."""

    name: str
    records: int
    value_bytes: int
    partitions: int = 4
    """Of the topic that is read, and of the one that is written."""


SHAPES = (Shape("100b", 1_000_000, 100), Shape("1k", 200_000, 1000))
GROWTH = tuple(Shape(f"partitions-{count}", 200_000, 100, count) for count in (1, 4, 16, 64))
"""For the cost of many partitions."""


class Run(NamedTuple):
    """One measured run: where from, and a directory of its own for what it writes."""

    spark: SparkSession
    bootstrap: str
    source: str
    place: Path
    sink: str


def run_plain(run: Run, target: str) -> None:
    """Spark's connector and sinks as they come."""
    df: DataFrame = (
        run.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", run.bootstrap)
        .option("subscribe", run.source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    writer: Any
    if target == "topic":
        writer = df.select("key", "value").writeStream.format("kafka").option("topic", run.sink)
        writer = writer.option("kafka.bootstrap.servers", run.bootstrap)
    else:
        columns = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
        writer = df.select(*columns).writeStream.format(target).option("path", str(run.place / "table"))
    _finish(writer.option("checkpointLocation", str(run.place / "checkpoint")).trigger(availableNow=True).start())


def run_tidelog(run: Run, target: str) -> None:
    """The functions of this package, exactly once."""
    df = read_topic(run.spark, run.source, bootstrap=run.bootstrap, value="bytes", key="bytes", stream=True)
    checkpoint = str(run.place / "checkpoint")
    if target == "topic":
        query = write_topic(
            df.select("key", "value", "topic", "partition", "offset"),
            run.sink,
            bootstrap=run.bootstrap,
            checkpoint=checkpoint,
            trigger="available-now",
        )
    else:
        table = str(run.place / "table")
        query = write_table(df, table, format=target, checkpoint=checkpoint, trigger="available-now")
    _finish(query)


def timed(action: Callable[[Run, str], None], run: Run, target: str, records: int) -> float:
    """Records per second, from the start of the query to its end."""
    run.place.mkdir(parents=True)
    started = time.monotonic()
    action(run, target)
    return records / (time.monotonic() - started)


def count_rows(run: Run, target: str) -> int:
    """What a run has written: committed records of the topic, rows of the table."""
    if target == "topic":
        options = {"kafka.bootstrap.servers": run.bootstrap, "subscribe": run.sink, "startingOffsets": "earliest"}
        written = (
            run.spark.read.format("kafka").options(**options, **{"kafka.isolation.level": "read_committed"}).load()
        )
    else:
        written = run.spark.read.format(target).load(str(run.place / "table"))
    return int(written.count())


def _finish(query: Any) -> None:
    try:
        if not query.awaitTermination(RUN_TIMEOUT_S):
            raise TimeoutError(f"a query did not end within {RUN_TIMEOUT_S} s")
    finally:
        query.stop()
