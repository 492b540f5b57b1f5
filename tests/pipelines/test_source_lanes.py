"""Streams that are written by the tasks that read them, and streams that cannot be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipelines.topics import Record, produce, read_all

from tidelog.pipelines import PipelineError, read_topic, write_topic
from tidelog.pipelines.delivery.sink_state import FILE
from tidelog.pipelines.topics.source_lanes import source_scan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(600)
MakeTopic = Callable[..., str]


def run(df: DataFrame, sink: str, bootstrap: str, checkpoint: str, **arguments: Any) -> None:
    query = write_topic(df, sink, bootstrap=bootstrap, checkpoint=checkpoint, trigger="available-now", **arguments)
    try:
        assert query.awaitTermination(500)
    finally:
        query.stop()


def layouts(checkpoint: str) -> list[tuple[int, bool]]:
    content = json.loads((Path(checkpoint) / FILE).read_text())
    return [(layout["from_batch"], layout["by_source"]) for layout in content["layouts"]]


def test_only_columns_and_filters_may_lie_between_source_and_sink(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    topic = make_topic(partitions=3)
    df = read_topic(spark, topic, bootstrap=bootstrap, value="bytes", stream=True)
    parsed = read_topic(spark, topic, bootstrap=bootstrap, schema="id BIGINT", stream=True)
    df.createOrReplaceTempView("source_lanes")
    spark.range(3).createOrReplaceTempView("source_lanes_lookup")
    split = read_topic(spark, topic, bootstrap=bootstrap, value="bytes", stream=True, options={"minPartitions": "9"})
    narrow = [
        df,
        df.select("key", "value").where("key IS NOT NULL"),
        parsed.withColumn("id", F.col("value.id") + 1),
        spark.sql("SELECT upper(CAST(value AS STRING)) AS value FROM source_lanes"),
        df.withWatermark("timestamp", "1 minute"),
        df.observe("rows", F.count(F.lit(1)).alias("rows")),
    ]
    wide = [
        df.groupBy("key").count(),
        df.repartition(4),
        df.coalesce(1),
        df.union(df),
        df.dropDuplicates(["key"]),
        df.withColumn("slow", F.udf(len, "int")("key")),
        split,
        spark.sql("SELECT * FROM source_lanes WHERE offset IN (SELECT id FROM source_lanes_lookup)"),
        spark.sql("SELECT * FROM source_lanes WHERE offset > (SELECT max(id) FROM source_lanes_lookup)"),
        spark.readStream.format("rate").load(),
    ]
    for frame in narrow:
        scan = source_scan(frame)
        assert scan is not None, frame
        assert (scan.topics, scan.bootstrap) == ((topic,), bootstrap)
    assert [source_scan(frame) for frame in wide] == [None] * len(wide)


def test_tasks_that_read_write_to_where_other_producers_do(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, checkpoint: str
) -> None:
    """More source partitions than target partitions; rows without a key too."""
    source, sink, theirs = make_topic(partitions=5), make_topic(partitions=2), make_topic(partitions=2)
    keyed = [Record(key=f"k{n % 17}".encode(), value=str(n).encode()) for n in range(200)]
    produce(bootstrap, theirs, keyed, partitioner="murmur2")
    produce(bootstrap, source, [*keyed, *(Record(value=str(n).encode()) for n in range(200, 240))])
    df = read_topic(spark, source, bootstrap=bootstrap, value="bytes", stream=True, max_offsets_per_trigger=100)
    run(df, sink, bootstrap, checkpoint)
    assert layouts(checkpoint) == [(0, True)]
    written = read_all(bootstrap, sink)
    assert Counter(record.value for record in written) == Counter(str(n).encode() for n in range(240))
    expected = {record.key: record.partition for record in read_all(bootstrap, theirs)}
    assert {record.key: record.partition for record in written if record.key} == expected
    assert {record.partition for record in written if record.key is None} == {0, 1}
    for key in expected:
        numbers = [int(record.value or b"") for record in written if record.key == key]
        assert numbers == sorted(numbers), key


def test_lanes_may_change_between_batches_and_not_within_one(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, checkpoint: str
) -> None:
    source, sink = make_topic(partitions=2), make_topic(partitions=3)
    df = read_topic(spark, source, bootstrap=bootstrap, value="bytes", stream=True)
    values = [str(n).encode() for n in range(90)]

    def fill(first: int) -> None:
        produce(bootstrap, source, [Record(key=value, value=value) for value in values[first : first + 30]])

    fill(0)
    run(df, sink, bootstrap, checkpoint)
    # As if the driver had ended after the transactions and before the checkpoint was told.
    (Path(checkpoint) / "commits" / "0").unlink()
    (Path(checkpoint) / "commits" / ".0.crc").unlink()
    with pytest.raises(Exception, match="finish it with the steps it was begun with"):
        run(df.repartition(2), sink, bootstrap, checkpoint)
    run(df, sink, bootstrap, checkpoint)
    fill(30)
    run(df, sink, bootstrap, checkpoint, order_by=["offset"])
    fill(60)
    run(df, sink, bootstrap, checkpoint)
    assert Counter(record.value for record in read_all(bootstrap, sink)) == Counter(values)
    assert [by_source for _, by_source in layouts(checkpoint)] == [True, False, True]
    with pytest.raises(PipelineError, match="partitioner"):
        run(df, sink, bootstrap, checkpoint, partitioner="crc32")
