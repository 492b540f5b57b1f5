"""Frames into topics: what a record is made of, where it goes, and that it is there once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipelines.topics import Record, produce, read_all

from tidelog.pipelines import PipelineError, TopicWrite, read_topic, write_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)
MakeTopic = Callable[..., str]


def stream(spark: SparkSession, bootstrap: str, source: str, sink: str, checkpoint: str, **arguments: Any) -> None:
    """Everything that is in the source now, in batches of 100 records."""
    df = read_topic(spark, source, bootstrap=bootstrap, value="bytes", stream=True, max_offsets_per_trigger=100)
    query = write_topic(df, sink, bootstrap=bootstrap, checkpoint=checkpoint, trigger="available-now", **arguments)
    try:
        assert query.awaitTermination(500)
    finally:
        query.stop()


def fill(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    produce(
        bootstrap,
        topic,
        [Record(key=f"k{n % 17}".encode(), value=str(n).encode()) for n in range(first, first + count)],
    )


@pytest.mark.parametrize("partitioner", ["murmur2", "fnv1a", "crc32"])
def test_keys_go_where_other_producers_send_them(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, partitioner: str
) -> None:
    ours, theirs = make_topic(partitions=5), make_topic(partitions=5)
    names = [f"customer-{n}" for n in range(60)]
    librdkafka = {"murmur2": "murmur2", "fnv1a": "fnv1a", "crc32": "consistent"}[partitioner]
    produce(bootstrap, theirs, [Record(key=name.encode(), value=b"x") for name in names], partitioner=librdkafka)
    df = spark.createDataFrame([(name, "x") for name in names], "key STRING, value STRING")
    write_topic(df, ours, bootstrap=bootstrap, partitioner=partitioner)
    expected = {record.key: record.partition for record in read_all(bootstrap, theirs)}
    assert {record.key: record.partition for record in read_all(bootstrap, ours)} == expected


def test_what_a_record_is_made_of(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    df = spark.createDataFrame([(7, "a", 1.5), (8, None, None)], "id INT, name STRING, price DOUBLE")
    result = write_topic(
        df, topic, bootstrap=bootstrap, key="id", value=["name", "price"], headers={"kind": "test"}, order_by=["id"]
    )
    assert result == TopicWrite(topic=topic, rows=2)
    first, second = read_all(bootstrap, topic)
    assert (first.key, json.loads(first.value or b"")) == (b"7", {"name": "a", "price": 1.5})
    assert json.loads(second.value or b"") == {"name": None, "price": None}
    assert first.headers == (("kind", b"test"),)


def test_tombstones_headers_and_timestamps_pass_through(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, sink = make_topic(), make_topic()
    headers = (("a", b"1"), ("b", b"\x00"))
    records = [Record(key=b"k", value=None, headers=headers, timestamp_ms=1_700_000_000_000), Record(value=b"v")]
    produce(bootstrap, source, records)
    write_topic(
        read_topic(spark, source, bootstrap=bootstrap, value="bytes"), sink, bootstrap=bootstrap, timestamp="timestamp"
    )
    first, second = read_all(bootstrap, sink)
    assert (first.key, first.value, first.headers, first.timestamp_ms) == (b"k", None, headers, 1_700_000_000_000)
    assert (second.key, second.value) == (None, b"v")


def test_a_stream_is_written_once_and_in_order(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, checkpoint: str
) -> None:
    source, sink = make_topic(partitions=3), make_topic(partitions=4)
    fill(bootstrap, source, 250)
    stream(spark, bootstrap, source, sink, checkpoint)
    fill(bootstrap, source, 50, first=250)
    stream(spark, bootstrap, source, sink, checkpoint)
    written = read_all(bootstrap, sink)
    assert Counter(record.value for record in written) == Counter(str(n).encode() for n in range(300))
    for key in {record.key for record in written}:
        numbers = [int(record.value or b"") for record in written if record.key == key]
        assert numbers == sorted(numbers), key


def test_a_batch_that_is_not_in_the_checkpoint_is_found_in_the_topic(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, checkpoint: str
) -> None:
    source, sink = make_topic(partitions=2), make_topic(partitions=3)
    fill(bootstrap, source, 150)
    stream(spark, bootstrap, source, sink, checkpoint)
    # As if the driver had ended after the transactions and before the checkpoint was told.
    commits = sorted((Path(checkpoint) / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink()
    stream(spark, bootstrap, source, sink, checkpoint)
    assert Counter(record.value for record in read_all(bootstrap, sink)) == Counter(str(n).encode() for n in range(150))


def test_a_topic_that_grew_is_followed(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, checkpoint: str
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    source, sink = make_topic(partitions=1), make_topic(partitions=2)
    fill(bootstrap, source, 100)
    stream(spark, bootstrap, source, sink, checkpoint)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(sink, 5)])[sink].result()
    fill(bootstrap, source, 100, first=100)
    stream(spark, bootstrap, source, sink, checkpoint)
    written = read_all(bootstrap, sink)
    assert len(written) == len({record.value for record in written}) == 200
    assert {record.partition for record in written} > {0, 1}


def test_a_batch_write_can_be_run_again(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, checkpoint: str
) -> None:
    topic = make_topic(partitions=3)
    df = spark.range(100).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    assert write_topic(df, topic, bootstrap=bootstrap, checkpoint=checkpoint) == TopicWrite(topic=topic, rows=100)
    again = write_topic(df, topic, bootstrap=bootstrap, checkpoint=checkpoint)
    assert again == TopicWrite(topic=topic, rows=0, rows_skipped=100)
    assert len(read_all(bootstrap, topic)) == 100


def test_at_least_once_is_the_plain_sink(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, checkpoint: str
) -> None:
    source, sink = make_topic(), make_topic(partitions=3)
    fill(bootstrap, source, 40)
    stream(spark, bootstrap, source, sink, checkpoint, delivery="at-least-once", partitioner="fnv1a")
    assert {record.value for record in read_all(bootstrap, sink)} == {str(n).encode() for n in range(40)}


def test_wrong_arguments_are_one_line(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, checkpoint: str
) -> None:
    topic = make_topic(partitions=2)
    df = spark.createDataFrame([("a", "b", 5)], "key STRING, value STRING, number INT")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"delivery": "twice"}, "exactly-once"),
        ({"partitioner": "random"}, "murmur2, fnv1a, crc32"),
        ({"key": "nothing"}, "key: no column nothing in key, value, number"),
        ({"value": []}, "no column is named"),
        ({"order_by": ["nothing"]}, "order_by: no column nothing"),
        ({"trigger": "now and then"}, "available-now"),
        ({"trigger": "continuous 1 second"}, "continuous"),
        ({"timestamp": "number", "delivery": "at-least-once"}, "timestamp="),
    ]
    for arguments, message in wrong:
        with pytest.raises(PipelineError, match=message) as caught:
            write_topic(df, topic, bootstrap=bootstrap, **arguments)
        assert "\n" not in str(caught.value)
    with pytest.raises(Exception, match="partition 5 of a row is not one of 0 to 1"):
        write_topic(df, topic, bootstrap=bootstrap, partition="number")
    rows = read_topic(spark, topic, bootstrap=bootstrap, value="bytes", stream=True)
    with pytest.raises(PipelineError, match="needs checkpoint="):
        write_topic(rows, topic, bootstrap=bootstrap)
    write_topic(df, topic, bootstrap=bootstrap, checkpoint=checkpoint)
    with pytest.raises(PipelineError, match="partitioner murmur2, not fnv1a"):
        write_topic(df, topic, bootstrap=bootstrap, checkpoint=checkpoint, partitioner="fnv1a")
    with pytest.raises(PipelineError, match="use another checkpoint"):
        write_topic(df, make_topic(), bootstrap=bootstrap, checkpoint=checkpoint)
    assert len(read_all(bootstrap, topic)) == 1
