"""Dead letters are the records that were read, byte for byte, whatever steps had made of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
from tests.pipelines.messages import ORDER, described, message_class, order_file, write_descriptor
from tests.pipelines.topics import Record, produce, read_all

from tidelog.pipelines import divert, read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakeTopic = Callable[..., str]

OWN = (("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""), ("none", None))
SCHEMA = "id BIGINT, amount DOUBLE"
VALUES = {
    1: b'{ "amount": 1.50,  "id": 1, "unknown": {"x": [1, 2]} }\n',
    2: b'{"id":2,"amount":2e0,"more":"\\u00e9"}',
    3: b'{"unnamed": null, "id": 3}',
}
AVRO = '{"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}]}'


def of_format(format_name: str, directory: Path) -> tuple[dict[str, Any], bytes, str]:
    """Arguments of `read_topic`, a value, and a predicate that is true for it."""
    if format_name == "csv":
        return {"schema": "id BIGINT, name STRING"}, b'7,"a ""b"""', "value.id = 7"
    if format_name == "avro":
        return {"schema": AVRO}, b"\x0e", "value.id = 7"
    if format_name == "protobuf":
        # A field that the schema does not name: number 1000, a varint.
        data = message_class(described(order_file()), ORDER)(id=7).SerializeToString() + b"\xc0\x3e\x05"
        return (
            {"schema": write_descriptor(directory / "orders.desc", order_file()), "message": ORDER},
            data,
            "value.id = 7",
        )
    if format_name == "text":
        return {}, "7 \u00e9".encode(), "value LIKE '7%'"
    if format_name == "bytes":
        return {}, b"\xff7", "length(value) = 2"
    return {"schema": SCHEMA, "key": "json", "key_schema": "k INT"}, VALUES[1], "key.k = 7 AND value.id = 1"


def taken(df: DataFrame, predicate: str, letters: str, bootstrap: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return divert(df, F.when(F.expr(predicate), "because"), topic=letters, bootstrap=bootstrap)


@pytest.mark.parametrize("name", ["json", "csv", "avro", "protobuf", "text", "bytes"])
def test_a_row_of_any_format_leaves_as_its_record(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, name: str
) -> None:
    topic, letters = make_topic(), make_topic("letters")
    arguments, value, predicate = of_format(name, tmp_path)
    produce(
        bootstrap, topic, [Record(key=b'{"k":  7, "l": 8}', value=value, headers=OWN, timestamp_ms=1_700_000_000_123)]
    )
    df = read_topic(spark, topic, bootstrap=bootstrap, value=name, **arguments)
    assert taken(df, predicate, letters, bootstrap).collect() == []
    [letter] = read_all(bootstrap, letters)
    assert (letter.key, letter.value) == (b'{"k":  7, "l": 8}', value)
    assert letter.headers[: len(OWN)] == OWN
    assert {key.removeprefix("tidelog.dead-letter."): text for key, text in letter.headers[len(OWN) :]} == {
        "reason": b"because",
        "content": b"record",
        "topic": topic.encode(),
        "partition": b"0",
        "offset": b"0",
        "timestamp": b"1700000000123",
    }


def test_records_are_found_under_steps_that_keep_one_per_row(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic, other = make_topic(), make_topic()
    produce(bootstrap, topic, [Record(key=b"k", value=value, headers=OWN) for value in VALUES.values()])
    produce(bootstrap, other, [Record(value=b'{"id": 9, "amount": 0, "unknown": 1}')])
    orders = read_topic(spark, topic, bootstrap=bootstrap, schema=SCHEMA)
    orders.createOrReplaceTempView("orders")
    read_topic(spark, other, bootstrap=bootstrap, schema=SCHEMA).createOrReplaceTempView("others")
    narrow = "SELECT value.id, value.amount AS topic FROM orders WHERE value.id > 0"
    found = {
        narrow: ("id = 2", [2]),
        f"SELECT upper(n) AS n FROM (SELECT CAST(id AS STRING) AS n FROM ({narrow}))": ("n = '3'", [3]),
        "SELECT e, value.id FROM orders LATERAL VIEW explode(array(1, 2)) AS e": ("id = 1 AND e = 2", [1]),
        "SELECT value.id FROM orders UNION ALL SELECT value.id FROM others": ("id IN (3, 9)", [3, 9]),
        "SELECT n.name, o.value.id FROM orders o JOIN VALUES (1, 'a') AS n(id, name) ON o.value.id = n.id": (
            "true",
            [1],
        ),
        "SELECT value.id FROM orders ORDER BY value.amount LIMIT 1": ("true", [3]),
    }
    values = {**VALUES, 9: b'{"id": 9, "amount": 0, "unknown": 1}'}
    for statement, (predicate, ids) in found.items():
        letters = make_topic("letters")
        df = spark.sql(statement)
        rest = taken(df, predicate, letters, bootstrap)
        assert rest.columns == df.columns
        assert rest.count() == df.count() - len(ids), statement
        sent = read_all(bootstrap, letters)
        assert sorted(letter.value for letter in sent) == sorted(values[i] for i in ids), statement
        assert {dict(letter.headers)["tidelog.dead-letter.content"] for letter in sent} == {b"record"}
    # A second `divert` finds the record as the first one did.
    letters = make_topic("letters")
    twice = taken(taken(spark.sql(narrow), "id = 1", letters, bootstrap), "id = 2", letters, bootstrap)
    assert [row.id for row in twice.collect()] == [3]
    assert sorted(letter.value for letter in read_all(bootstrap, letters)) == sorted([VALUES[1], VALUES[2]])


def test_a_row_that_is_not_one_record_leaves_as_all_of_its_columns(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, [Record(key=b"k", value=value) for value in VALUES.values()])
    read_topic(spark, topic, bootstrap=bootstrap, schema=SCHEMA).createOrReplaceTempView("orders")
    rows = {
        "SELECT count(*) AS n, NULL AS x FROM orders": b'{"n":3,"x":null}',
        "SELECT a.value.id FROM orders a JOIN orders b ON a.offset = b.offset WHERE a.offset = 0": b'{"id":1}',
        "SELECT 'text' AS value, 'k' AS key, 5 AS five": b'{"value":"text","key":"k","five":5}',
        "SELECT 'text' AS value, 'k' AS key": b"text",
    }
    for statement, value in rows.items():
        letters = make_topic("letters")
        assert taken(spark.sql(statement), "true", letters, bootstrap).collect() == []
        [letter] = read_all(bootstrap, letters)
        assert letter.value == value
        assert dict(letter.headers)["tidelog.dead-letter.content"] == b"row"
