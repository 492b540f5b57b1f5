"""Topics as frames: formats, dead letters, starts and ends, and what goes wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipelines.topics import Record, produce, read_all

from tidelog.pipelines import PipelineError, read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)
MakeTopic = Callable[..., str]
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Pair",
        "fields": [{"name": "n", "type": "int"}, {"name": "s", "type": ["null", "string"]}],
    }
)


def test_every_column_of_a_record_is_kept(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    headers = (("trace", b"abc"),)
    produce(
        bootstrap, topic, [Record(key=b"k", value=b"v", partition=1, headers=headers, timestamp_ms=1_700_000_000_123)]
    )
    [row] = read_topic(spark, topic, bootstrap=bootstrap, value="text").collect()
    assert (row.key, row.value, row.topic, row.partition, row.offset) == ("k", "v", topic, 1, 0)
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("trace", b"abc")]
    assert row.timestamp.timestamp() == 1_700_000_000.123


BAD_JSON = {
    b'{"id": 2': "not JSON",
    b'{"id": 25': "not JSON",
    b'{"id": 25 ': "not JSON",
    b'{"id": {}': "not JSON",
    b'{"name": "}': "not JSON",
    b'{"id": "x"}': "does not fit the schema",
    b'[{"id": 3}]': "does not fit the schema",
    b'{"id": 4} more': "not JSON",
    b'{"id": 5}{"id": 6}': "not JSON",
    b'{"id": 5}, {"id": 6}': "not JSON",
    b'{"id": 7}, "x": 2': "not JSON",
    b'{"id": 8}], [{"id": 9}': "not JSON",
    b'{"id": 8}]], "x": [[{"id": 9}': "not JSON",
    b'{"id": 8}] ], "value": [[{"id": 9}': "not JSON",
    b"{}]]}": "not JSON",
    b"{}}": "not JSON",
    b"{}{}": "not JSON",
    b'{}, {}], "x": [{}': "not JSON",
    b'{"id": 8}, {"id": 9}]}': "not JSON",
    b'{"id": 8}], "x": [7': "not JSON",
    b'null, {"id": 8}': "not JSON",
    b"null]}": "not JSON",
    b'{"id": 8}], "x": [{"id": 9}': "not JSON",
    b"": "not JSON",
    b"null": "not a JSON object",
    b"\xff\xfe": "not UTF-8",
}


def test_json_that_does_not_fit_becomes_a_dead_letter(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    good = [
        Record(key=b"g", value=b'{"id": 1, "amount": 2.5, "other": [[[]] ]}', partition=0),
        Record(key=b"t", partition=1),
        Record(key=b"e", value=b" { \n\t} ", partition=1),
        Record(key=b"w", value=b'{"id": 9, "other": {"a": {}}}\r\n', partition=1),
    ]
    bad = [Record(key=b"b", value=value, partition=index % 2) for index, value in enumerate(BAD_JSON)]
    produce(bootstrap, topic, [*good, *bad])
    rows = read_topic(spark, topic, bootstrap=bootstrap, schema="id BIGINT, amount DOUBLE").collect()
    assert {row.key: row.value and row.value.asDict() for row in rows} == {
        "g": {"id": 1, "amount": 2.5},
        "t": None,
        "e": {"id": None, "amount": None},
        "w": {"id": 9, "amount": None},
    }
    letters = read_all(bootstrap, f"{topic}.dead-letters")
    assert {letter.value for letter in letters} == set(BAD_JSON)
    assert len(letters) == len(BAD_JSON)
    sources = {(record.value, record.partition): record.offset for record in read_all(bootstrap, topic)}
    for letter in letters:
        headers = {name: value.decode() for name, value in letter.headers}
        assert BAD_JSON[letter.value or b""] in headers["tidelog.dead-letter.reason"]
        assert headers["tidelog.dead-letter.topic"] == topic
        place = (letter.value, int(headers["tidelog.dead-letter.partition"]))
        assert sources[place] == int(headers["tidelog.dead-letter.offset"])
        assert abs(int(headers["tidelog.dead-letter.timestamp"]) - time.time() * 1000) < 3_600_000


def test_a_bad_record_stops_the_query_by_its_place(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce(bootstrap, topic, [Record(value=b'{"id": 1}'), Record(value=b"poison")])
    df = read_topic(spark, topic, bootstrap=bootstrap, schema="id BIGINT", on_bad="fail")
    with pytest.raises(Exception, match=f"bad record in topic {topic}, partition 0, offset 1: value: not JSON"):
        df.select("key").collect()


def test_the_schema_of_json_is_inferred_and_printed(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = make_topic()
    values = [
        b'{"id": 1, "price": 2.5}',
        b"no JSON",
        b'{"id": 2, "tags": ["a"], "price": 3}',
        b'{"id": 3, "x": {"y": true}}',
    ]
    produce(bootstrap, topic, [Record(value=value) for value in values])
    df = read_topic(spark, topic, bootstrap=bootstrap)
    assert df.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,price:double,tags:array<string>,x:struct<y:boolean>>"
    )
    assert f"schema of {topic}, from 3 records: `id` bigint" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "good", "parsed", "bad"),
    [
        ({"value": "csv", "schema": "n INT, s STRING"}, b"1,a", {"n": 1, "s": "a"}, [b"x,a", b"1,a,b", b""]),
        ({"value": "avro", "schema": AVRO}, b"\x02\x00", {"n": 1, "s": None}, [b"\x02\x02\x40ab", b""]),
    ],
)
def test_other_formats(
    spark: SparkSession,
    bootstrap: str,
    make_topic: MakeTopic,
    arguments: dict[str, str],
    good: bytes,
    parsed: dict[str, Any],
    bad: list[bytes],
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, [Record(value=value) for value in (good, *bad, None)])
    rows = read_topic(spark, topic, bootstrap=bootstrap, **arguments).collect()
    assert [row.value and row.value.asDict() for row in rows] == [parsed, None]
    assert [letter.value for letter in read_all(bootstrap, f"{topic}.dead-letters")] == bad


def test_bytes_take_anything(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce(bootstrap, topic, [Record(key=b"\xff", value=b"\x00\xff")])
    [row] = read_topic(spark, topic, bootstrap=bootstrap, value="bytes", key="bytes").collect()
    assert (bytes(row.key), bytes(row.value)) == (b"\xff", b"\x00\xff")


def test_starts_and_ends(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    records = [
        Record(value=str(index).encode(), partition=index % 2, timestamp_ms=1_700_000_000_000 + 1000 * index)
        for index in range(10)
    ]
    produce(bootstrap, topic, records)

    def values(**bounds: Any) -> set[int]:
        df = read_topic(spark, topic, bootstrap=bootstrap, value="text", **bounds)
        return {int(row.value) for row in df.select("value").collect()}

    assert values() == set(range(10))
    assert values(start={0: 3}, end={1: 2}) == {6, 8, 1, 3}
    assert values(start={topic: {0: 5, 1: 4}}) == {9}
    assert values(start=1_700_000_004_000, end="2023-11-14T22:13:27+00:00") == {4, 5, 6}
    assert values(start=1_800_000_000_000) == set()


def test_records_of_aborted_transactions_are_no_input(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    from confluent_kafka import Producer

    topic = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(30)
    for value, keep in ((b"no", False), (b"yes", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.commit_transaction(30) if keep else producer.abort_transaction(30)
    assert [row.value for row in read_topic(spark, topic, bootstrap=bootstrap, value="text").collect()] == ["yes"]


def test_records_that_are_gone_stop_a_stream_unless_allowed(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, checkpoint: str
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = make_topic()
    produce(bootstrap, topic, [Record(value=b"a"), Record(value=b"b")])

    def run(*, fail: bool) -> None:
        df = read_topic(spark, topic, bootstrap=bootstrap, value="text", stream=True, fail_on_data_loss=fail)
        writer = df.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query = writer.start()
        try:
            assert query.awaitTermination(300)
        finally:
            query.stop()

    run(fail=True)
    produce(bootstrap, topic, [Record(value=str(index).encode()) for index in range(10)])
    admin, end = AdminClient({"bootstrap.servers": bootstrap}), TopicPartition(topic, 0, 8)
    admin.delete_records([end])[end].result()
    with pytest.raises(Exception, match=f"{topic}-0"):
        run(fail=True)
    run(fail=False)


def test_wrong_arguments_are_one_line(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"topic": "nobody-made-this"}, "nobody-made-this does not exist"),
        ({"topic": []}, "no topic is named"),
        ({"value": "xml"}, "the formats are"),
        ({"key": "xml"}, "the formats are"),
        ({"on_bad": "drop"}, "dead-letter"),
        ({"value": "csv"}, "needs schema="),
        ({"schema": "id NOTATYPE"}, "NOTATYPE"),
        ({"schema": "BIGINT"}, "name the fields"),
        ({"value": "avro", "schema": "{"}, "not JSON"),
        ({"value": "protobuf", "schema": "x"}, "needs message="),
        ({"value": "protobuf", "schema": "/no/such/file", "message": "m"}, "/no/such/file cannot be read"),
        ({"value": "protobuf", "schema": __file__, "message": "m"}, "this is no Protobuf descriptor"),
        ({"value": "registry-avro"}, "needs registry="),
        ({"bootstrap": "127.0.0.1:1"}, "no broker answers at 127.0.0.1:1"),
    ]
    for arguments, message in wrong:
        given = {"topic": topic, "bootstrap": bootstrap, "schema": "id BIGINT", **arguments}
        if arguments.get("value") == "csv":
            del given["schema"]
        with pytest.raises(PipelineError, match=message) as caught:
            read_topic(spark, given.pop("topic"), **given)
        assert "\n" not in str(caught.value)
