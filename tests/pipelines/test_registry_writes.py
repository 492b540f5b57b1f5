"""What is written for a schema registry, and Protobuf in its framing: read by Google's library and by ourselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
from google.protobuf import descriptor_pb2
from tests.pipelines.messages import (
    LINE,
    ORDER,
    PACKAGE,
    add,
    described,
    message_class,
    order_file,
    write_descriptor,
)
from tests.pipelines.schema_registries import register, small_registry
from tests.pipelines.topics import Record, produce, read_all

from tidelog.pipelines import PipelineError, read_topic, write_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(900)
MakeTopic = Callable[..., str]
PAIR: dict[str, Any] = {
    "type": "record",
    "name": "Pair",
    "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"], "default": None}],
}
PROTO = """
syntax = "proto3";
package tidelog.test;
import "common/money.proto";
message Note { string text = 1; }
message Bill { int64 id = 1; Money total = 2; message Part { int32 n = 1; } }
"""
MONEY = 'syntax = "proto3"; package tidelog.test; message Money { int64 units = 1; string currency = 2; }'


def framed(identity: int, path: bytes, payload: bytes) -> bytes:
    return b"\x00" + identity.to_bytes(4, "big") + path + payload


def pairs(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT * FROM VALUES ('a', named_struct('n', 1L, 's', 'x')), ('b', named_struct('n', 2L, 's', NULL)),"
        " ('c', NULL) AS t(key, value)"
    )


def values_of(rows: list[Any]) -> dict[str, Any]:
    return {row.key: row.value and row.value.asDict(recursive=True) for row in rows}


PAIRS = {"a": {"n": 1, "s": "x"}, "b": {"n": 2, "s": None}, "c": None}


def write_and_read_avro(registry: str, spark: SparkSession, bootstrap: str, topic: str) -> None:
    given: dict[str, Any] = {"bootstrap": bootstrap, "value_format": "registry-avro", "registry": registry}
    write_topic(pairs(spark), topic, schema=json.dumps(PAIR), **given)
    values = {record.key: record.value for record in read_all(bootstrap, topic)}
    identity = int.from_bytes((values[b"a"] or b"")[1:5], "big")
    assert values == {
        b"a": framed(identity, b"", b"\x02\x02\x02x"),
        b"b": framed(identity, b"", b"\x04\x00"),
        b"c": None,
    }
    assert register(registry, f"{topic}-value", PAIR) == identity, "another schema was registered"
    # Without a schema the newest version counts.
    write_topic(spark.sql("SELECT 'd' AS key, 4L AS n, 'y' AS s"), topic, value=["n", "s"], **given)
    assert [record.value for record in read_all(bootstrap, topic) if record.key == b"d"] == [
        framed(identity, b"", b"\x08\x02\x02y")
    ]
    rows = read_topic(spark, topic, bootstrap=bootstrap, value="registry-avro", registry=registry).collect()
    assert values_of(rows) == {**PAIRS, "d": {"n": 4, "s": "y"}}
    with pytest.raises(PipelineError, match=r"the columns do not fit the Avro schema: .*'n'") as caught:
        write_topic(spark.sql("SELECT 'seven' AS n, 'y' AS s"), topic, **given)
    assert "\n" not in str(caught.value)


def test_avro_is_written_with_the_id_of_its_schema(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    with small_registry() as registry:
        write_and_read_avro(registry, spark, bootstrap, make_topic())
        # Nobody has registered anything and none is given: the columns say it.
        topic = make_topic(partitions=3)
        given: dict[str, Any] = {"bootstrap": bootstrap, "value_format": "registry-avro", "registry": registry}
        write_topic(pairs(spark), topic, **given)
        rows = read_topic(spark, topic, bootstrap=bootstrap, value="registry-avro", registry=registry).collect()
        assert values_of(rows) == PAIRS
    with pytest.raises(PipelineError, match=f"the schema registry at {registry} cannot be read"):
        write_topic(pairs(spark), topic, **given)


def test_rows_without_a_key_go_where_they_went_when_the_schema_is_another(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    """A batch that runs again may find a newer schema, and a row that moved then would be there twice."""
    topic, places = make_topic(partitions=5), []
    given: dict[str, Any] = {"bootstrap": bootstrap, "value_format": "registry-avro"}
    with small_registry() as registry:
        for document in ("first", "second"):
            schema = json.dumps({**PAIR, "doc": document})
            write_topic(spark.range(40).selectExpr("id AS n"), topic, registry=registry, schema=schema, **given)
            written = read_all(bootstrap, topic)
            identity = max(int.from_bytes((record.value or b"")[1:5], "big") for record in written)
            newest = [record for record in written if (record.value or b"")[1:5] == identity.to_bytes(4, "big")]
            places.append({(record.value or b"")[5:]: record.partition for record in newest})
    assert len(places[0]) == 40
    assert places[0] == places[1]


def test_plain_avro_is_read_back(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic, avro = make_topic(), json.dumps(PAIR)
    write_topic(pairs(spark), topic, bootstrap=bootstrap, value_format="avro", schema=avro, delivery="at-least-once")
    assert {record.key: record.value for record in read_all(bootstrap, topic)}[b"a"] == b"\x02\x02\x02x"
    rows = read_topic(spark, topic, bootstrap=bootstrap, value="avro", schema=avro).collect()
    assert values_of(rows) == PAIRS
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"value_format": "xml"}, "values are written as json, avro"),
        ({"value_format": "avro"}, "value_format='avro' needs schema="),
        ({"value_format": "avro", "schema": "{"}, "the Avro schema is not JSON"),
        ({"value_format": "avro", "schema": '{"type": "what"}'}, "do not fit the Avro schema"),
        ({"value_format": "protobuf"}, "needs schema= and message="),
        ({"value_format": "registry-avro"}, "needs registry=URL"),
        ({"value_format": "registry-avro", "registry": "localhost:8081"}, "give its URL"),
    ]
    for arguments, message in wrong:
        with pytest.raises(PipelineError, match=message) as caught:
            write_topic(pairs(spark), topic, bootstrap=bootstrap, **arguments)
        assert "\n" not in str(caught.value)
    assert len(read_all(bootstrap, topic)) == 3


def write_and_read_protobuf(registry: str, spark: SparkSession, bootstrap: str, topic: str, directory: Path) -> None:
    descriptor, kind = (
        write_descriptor(directory / "orders.desc", order_file()),
        message_class(described(order_file()), ORDER),
    )
    given: dict[str, Any] = {"bootstrap": bootstrap, "value_format": "registry-protobuf", "registry": registry}
    with pytest.raises(PipelineError, match=f"has no subject {topic}-value: give schema= and message="):
        write_topic(spark.sql("SELECT 1L AS id"), topic, **given)
    write_topic(spark.sql("SELECT 'a' AS key, 1L AS id"), topic, schema=descriptor, message=ORDER, **given)
    # The message is the second in its file: a path of one index, 1. Without a schema the newest version counts.
    write_topic(spark.sql("SELECT 'b' AS key, 2L AS id, 'PAID' AS state"), topic, message=ORDER, **given)
    write_topic(spark.sql("SELECT 'c' AS key, 'x' AS item"), topic, message=LINE, **given)
    values = {record.key: record.value or b"" for record in read_all(bootstrap, topic)}
    identity = int.from_bytes(values[b"a"][1:5], "big")
    assert values[b"a"] == framed(identity, b"\x02\x02", kind(id=1).SerializeToString())
    assert values[b"b"] == framed(identity, b"\x02\x02", kind(id=2, state=1).SerializeToString())
    assert values[b"c"] == framed(identity, b"\x04\x02\x00", b"\x0a\x01x")
    rows = read_topic(
        spark, topic, bootstrap=bootstrap, value="registry-protobuf", registry=registry, message=ORDER
    ).collect()
    assert {row.key: (row.value.id, row.value.state) for row in rows} == {"a": (1, "NEW"), "b": (2, "PAID")}
    [letter] = read_all(bootstrap, f"{topic}.dead-letters")
    assert dict(letter.headers)["tidelog.dead-letter.reason"] == f"value: the message {LINE}, not {ORDER}".encode()


def test_protobuf_is_written_with_the_id_of_its_schema(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    with small_registry() as registry:
        write_and_read_protobuf(registry, spark, bootstrap, make_topic(), tmp_path)


def test_versions_of_a_protobuf_schema_and_what_it_imports(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    subject = f"{topic}-value"
    reference = {"name": "common/money.proto", "subject": "common/money.proto", "version": 1}
    more: dict[str, Any] = {"schemaType": "PROTOBUF", "references": [reference]}
    with small_registry() as registry:
        register(registry, "common/money.proto", MONEY, schemaType="PROTOBUF")
        older = PROTO.replace("message Bill { int64 id = 1;", "message Bill { int64 id = 1; string gone = 9;")
        first, second = register(registry, subject, older, **more), register(registry, subject, PROTO, **more)
        bill = b"\x08\x05\x12\x07\x08\x02\x12\x03EUR"
        good = [framed(first, b"\x02\x02", bill + b"\x4a\x01x"), framed(second, b"\x02\x02", bill), None]
        bad = [
            framed(second, b"\x02\x02", b"\xff"),
            framed(second, b"\x00", b"\x0a\x01x"),
            framed(second, b"\x02\x06", b""),
            framed(0, b"\x00", b""),
            b"\x00\x00",
        ]
        produce(bootstrap, topic, [Record(value=value) for value in (*good, *bad)])
        given: dict[str, Any] = {"bootstrap": bootstrap, "value": "registry-protobuf", "registry": registry}
        given["message"] = f"{PACKAGE}.Bill"
        df = read_topic(spark, topic, **given)
        parsed = {"id": 5, "total": {"units": 2, "currency": "EUR"}}
        assert [row.value and row.value.asDict(recursive=True) for row in df.collect()] == [parsed, parsed, None]
        letters = read_all(bootstrap, f"{topic}.dead-letters")
        assert [letter.value for letter in letters] == bad
        reasons = [dict(letter.headers)["tidelog.dead-letter.reason"].decode() for letter in letters]
        assert reasons == [
            f"value: not Protobuf of the message {PACKAGE}.Bill",
            f"value: the message {PACKAGE}.Note, not {PACKAGE}.Bill",
            f"value: schema id {second} has no message at [3]",
            f"value: schema id 0 is not one of subject {subject}",
            "value: not framed for a schema registry",
        ]
        third = register(registry, subject, PROTO + "// newer", **more)
        produce(bootstrap, topic, [Record(value=framed(third, b"\x02\x02", bill))])
        with pytest.raises(Exception, match=f"schema id {third} is newer than the versions of {subject}"):
            df.collect()
        register(registry, subject, "message {", **more)
        with pytest.raises(PipelineError, match=f"version 4 of subject {subject} does not compile: ") as caught:
            read_topic(spark, topic, **given)
        assert "\n" not in str(caught.value)
        other = make_topic()
        register(registry, f"{other}-value", PAIR)
        with pytest.raises(PipelineError, match=f"subject {other}-value at {registry} holds AVRO schemas"):
            read_topic(spark, other, **given)


def test_imported_files_are_registered_too(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    money = descriptor_pb2.FileDescriptorProto(name="common/money.proto", package=PACKAGE, syntax="proto3")
    add(money.message_type.add(name="Money"), "units", 1, "int64")
    bill = descriptor_pb2.FileDescriptorProto(
        name="bill.proto", package=PACKAGE, syntax="proto3", dependency=["common/money.proto"]
    )
    add(bill.message_type.add(name="Bill"), "total", 1, f".{PACKAGE}.Money")
    descriptor, topic = write_descriptor(tmp_path / "bill.desc", money, bill), make_topic()
    with small_registry() as registry:
        given: dict[str, Any] = {"bootstrap": bootstrap, "registry": registry, "message": f"{PACKAGE}.Bill"}
        df = spark.sql("SELECT named_struct('units', 3L) AS total")
        write_topic(df, topic, value_format="registry-protobuf", schema=descriptor, **given)
        [row] = read_topic(spark, topic, value="registry-protobuf", **given).collect()
    assert row.value.asDict(recursive=True) == {"total": {"units": 3}}
