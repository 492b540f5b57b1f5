"""Keys in every format: read with their dead letters, written, and sent where their bytes say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
from google.protobuf import descriptor_pb2
from tests.pipelines.messages import PACKAGE, add, described, message_class, write_descriptor
from tests.pipelines.schema_registries import register, small_registry
from tests.pipelines.topics import Record, produce, read_all

from tidelog.pipelines import PipelineError, read_topic, write_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)
MakeTopic = Callable[..., str]
PLACE: dict[str, Any] = {
    "type": "record",
    "name": "Place",
    "fields": [{"name": "shop", "type": "int"}, {"name": "till", "type": "string"}],
}
KEY = f"{PACKAGE}.Key"


def framed(identity: int, payload: bytes) -> bytes:
    return b"\x00" + identity.to_bytes(4, "big") + payload


def key_file(*, till: int = 2) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="keys.proto", package=PACKAGE, syntax="proto3")
    key = file.message_type.add(name="Key")
    add(key, "shop", 1, "int32")
    add(key, "till", till, "string")
    return file


def reasons(bootstrap: str, topic: str) -> dict[bytes | None, str]:
    letters = read_all(bootstrap, f"{topic}.dead-letters")
    return {letter.key: dict(letter.headers)["tidelog.dead-letter.reason"].decode() for letter in letters}


def as_plain(value: Any) -> Any:
    return value.asDict() if hasattr(value, "asDict") else value


@pytest.mark.parametrize(
    ("key", "schema", "good", "parsed", "bad", "reason"),
    [
        ("json", None, b'{"shop": 1}', {"shop": 1}, b'{"shop": 1}{"shop": 2}', "key: not JSON"),
        ("avro", json.dumps(PLACE), b"\x02\x02a", {"shop": 1, "till": "a"}, b"\x02", "key: not Avro of the schema Pla"),
        ("avro", "long", b"\x0e", 7, b"", "key: not Avro of the schema long"),
        ("protobuf", "keys.desc", b"\x08\x01\x12\x01a", {"shop": 1, "till": "a"}, b"\xff", "key: not Protobuf"),
    ],
)
def test_keys_are_read(
    spark: SparkSession,
    bootstrap: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    key: str,
    schema: str | None,
    good: bytes,
    parsed: Any,
    bad: bytes,
    reason: str,
) -> None:
    topic, arguments = make_topic(), {"key": key, "key_schema": schema}
    if key == "protobuf":
        arguments |= {"key_schema": write_descriptor(tmp_path / "keys.desc", key_file()), "key_message": KEY}
    values = [b'{"id": 1}', b'{"id": 2}', b'{"id": 3}', b"poison"]
    keys = [good, None, bad, good]
    produce(bootstrap, topic, [Record(key=k, value=v) for k, v in zip(keys, values, strict=True)])
    rows = read_topic(spark, topic, bootstrap=bootstrap, schema="id BIGINT", **arguments).collect()
    assert [(as_plain(row.key), row.value.id) for row in rows] == [(parsed, 1), (None, 2)]
    found = reasons(bootstrap, topic)
    assert found[bad].startswith(reason)
    assert found[good] == "value: not JSON"


def test_keys_go_where_other_producers_send_their_bytes(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    descriptor = write_descriptor(tmp_path / "keys.desc", key_file())
    kind = message_class(described(key_file()), KEY)
    df = spark.range(30).selectExpr("CAST(id AS INT) AS shop", "CAST(id % 3 AS STRING) AS till", "id AS n")
    pairs = [(n, str(n % 3)) for n in range(30)]

    def avro(shop: int, till: str) -> bytes:
        return bytes([2 * shop, 2 * len(till)]) + till.encode()

    cases: list[tuple[dict[str, Any], list[bytes]]] = [
        ({"key_format": "avro", "key_schema": json.dumps(PLACE)}, [avro(*pair) for pair in pairs]),
        (
            {"key_format": "protobuf", "key_schema": descriptor, "key_message": KEY},
            [kind(shop=shop, till=till).SerializeToString() for shop, till in pairs],
        ),
        ({"key": "shop", "key_format": "avro", "key_schema": "int"}, [bytes([2 * shop]) for shop, _ in pairs]),
    ]
    with small_registry() as registry:
        for partitioner, (arguments, keys) in zip(("murmur2", "crc32", "murmur2"), cases, strict=True):
            ours, theirs = make_topic(partitions=5), make_topic(partitions=5)
            given = {"key": ["shop", "till"], "value": ["n"], **arguments}
            write_topic(df, ours, bootstrap=bootstrap, partitioner=partitioner, **given)
            librdkafka = {"murmur2": "murmur2", "crc32": "consistent"}[partitioner]
            produce(bootstrap, theirs, [Record(key=key, value=b"x") for key in keys], partitioner=librdkafka)
            expected = {record.key: record.partition for record in read_all(bootstrap, theirs)}
            assert {record.key: record.partition for record in read_all(bootstrap, ours)} == expected
        # In a frame, and a single column where the schema has a field of its name; without a key there is none.
        topic = make_topic(partitions=3)
        one = {"type": "record", "name": "One", "fields": [{"name": "shop", "type": ["null", "int"]}]}
        identity = register(registry, f"{topic}-key", one)
        given = {"key": "shop", "value": ["n"], "key_format": "registry-avro", "registry": registry}
        some = df.selectExpr("nullif(shop, 5) AS shop", "n").where("n < 8")
        write_topic(some, topic, bootstrap=bootstrap, **given, delivery="at-least-once")
        written = {json.loads(record.value or b"")["n"]: record.key for record in read_all(bootstrap, topic)}
        assert written == {n: None if n == 5 else framed(identity, bytes([2, 2 * n])) for n in range(8)}
        rows = read_topic(
            spark, topic, bootstrap=bootstrap, value="text", key="registry-avro", registry=registry
        ).collect()
        assert sorted(row.key.shop for row in rows if row.key is not None) == [0, 1, 2, 3, 4, 6, 7]


def run_stream(spark: SparkSession, bootstrap: str, source: str, sink: str, checkpoint: str, **arguments: Any) -> None:
    df = read_topic(spark, source, bootstrap=bootstrap, schema="shop INT, till STRING, n BIGINT", stream=True)
    df = df.selectExpr("value.*").repartition(2) if arguments.pop("shuffled") else df.selectExpr("value.*")
    query = write_topic(
        df,
        sink,
        bootstrap=bootstrap,
        key=["shop", "till"],
        value="n",
        checkpoint=checkpoint,
        trigger="available-now",
        **arguments,
    )
    try:
        assert query.awaitTermination(300)
    finally:
        query.stop()


def keep_the_schema_of_keys(
    registry: str,
    spark: SparkSession,
    bootstrap: str,
    topics: tuple[str, str],
    checkpoint: str,
    directory: Path,
    key_format: str,
    *,
    shuffled: bool,
) -> None:
    (source, sink), count = topics, 60
    rows = [{"shop": n, "till": "a", "n": n} for n in range(count)]
    produce(bootstrap, source, [Record(value=json.dumps(row).encode()) for row in rows])
    given: dict[str, Any] = {"key_format": key_format, "shuffled": shuffled, "registry": registry}
    first: dict[str, Any] = {"key_schema": json.dumps(PLACE)}
    if key_format == "registry-protobuf":
        first = {"key_schema": write_descriptor(directory / "keys.desc", key_file()), "key_message": KEY}
    run_stream(spark, bootstrap, source, sink, checkpoint, **given, **first)
    before = read_all(bootstrap, sink)
    identity = int.from_bytes((before[0].key or b"")[1:5], "big")
    if key_format == "registry-avro":
        newer = register(registry, f"{sink}-key", {**PLACE, "doc": "newer"})
    else:
        text = f'syntax = "proto3"; package {PACKAGE}; message Key {{ int32 shop = 1; string till = 2; int32 n = 3; }}'
        newer = register(registry, f"{sink}-key", text, schemaType="PROTOBUF")
    assert newer > identity
    # As if the driver had ended after the transactions and before the checkpoint was told.
    [commit] = (Path(checkpoint) / "commits").glob("[0-9]*")
    commit.unlink()
    (commit.parent / f".{commit.name}.crc").unlink()
    produce(bootstrap, source, [Record(value=json.dumps(rows[0] | {"n": count}).encode())])
    run_stream(spark, bootstrap, source, sink, checkpoint, **given)
    written = read_all(bootstrap, sink)
    assert [record for record in written if record in before] == before
    assert len(written) == count + 1
    # New batches go on with it too, so that a key stays in its partition.
    places = {int(record.value or b""): (record.key, record.partition) for record in written}
    assert places[count] == places[0]
    with pytest.raises(PipelineError, match=r"made with keys as registry-\w+ \(schema id \d+.*, not json: ") as caught:
        run_stream(spark, bootstrap, source, sink, checkpoint, shuffled=shuffled)
    assert "\n" not in str(caught.value)
    assert len(read_all(bootstrap, sink)) == count + 1


@pytest.mark.parametrize(
    ("key_format", "shuffled"),
    [("registry-avro", True), pytest.param("registry-protobuf", False, marks=pytest.mark.long)],
)
def test_a_batch_in_doubt_keeps_its_keys_when_a_newer_schema_is_there(
    spark: SparkSession,
    bootstrap: str,
    make_topic: MakeTopic,
    checkpoint: str,
    tmp_path: Path,
    key_format: str,
    shuffled: bool,
) -> None:
    """With the id of another schema a key has other bytes: its rows would go elsewhere, and some be there twice."""
    topics = make_topic(partitions=2), make_topic(partitions=5)
    with small_registry() as registry:
        keep_the_schema_of_keys(registry, spark, bootstrap, topics, checkpoint, tmp_path, key_format, shuffled=shuffled)


def test_wrong_arguments_are_one_line(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, checkpoint: str, tmp_path: Path
) -> None:
    topic = make_topic()
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"key": "xml"}, "key='xml': the formats are"),
        ({"key": "csv"}, "key='csv' needs key_schema="),
        ({"key": "json"}, f"no schema can be inferred for the keys of {topic}: .* give key_schema="),
        ({"key": "json", "key_schema": "id NOTATYPE"}, "key json schema 'id NOTATYPE'"),
        ({"key": "protobuf", "key_schema": "x"}, "key='protobuf' needs key_message="),
        ({"key": "registry-avro"}, "key='registry-avro' needs registry=URL and a single topic"),
    ]
    for arguments, message in wrong:
        with pytest.raises(PipelineError, match=message) as caught:
            read_topic(spark, topic, bootstrap=bootstrap, value="text", **arguments)
        assert "\n" not in str(caught.value)
    df = spark.sql("SELECT 1 AS id, 'x' AS value")
    descriptor = write_descriptor(tmp_path / "keys.desc", key_file())
    protobuf = {"key_format": "protobuf", "key_message": KEY}
    wrong = [
        ({"key_format": "csv"}, "key_format='csv': keys are written as json, avro"),
        ({"key_format": "avro"}, "key_format='avro' needs key_schema="),
        ({"key_format": "protobuf"}, "key_format='protobuf' needs key_schema= and key_message="),
        (
            {"key_format": "avro", "key_schema": "int"},
            "key: no column is named to be encoded, and there is no column k",
        ),
        (
            {"key": "id", "key_format": "avro", "key_schema": "string"},
            "the columns of the key do not fit the Avro schem",
        ),
        ({"key": "id", "key_format": "avro", "key_schema": json.dumps(PLACE)}, "the columns of the key do not fit"),
        ({"key": "id", **protobuf, "key_schema": descriptor}, f"the Protobuf message {KEY} has no field id"),
    ]
    for arguments, message in wrong:
        with pytest.raises(PipelineError, match=message) as caught:
            write_topic(df, topic, bootstrap=bootstrap, **arguments)
        assert "\n" not in str(caught.value)
    # A schema that was given is kept by what it says: another one would make other bytes.
    given = {"key": ["shop"], "bootstrap": bootstrap, "checkpoint": checkpoint, "value": "value", **protobuf}
    shops = spark.sql("SELECT 1 AS shop, 'x' AS value")
    write_topic(shops, topic, key_schema=descriptor, **given)
    other = write_descriptor(tmp_path / "other.desc", key_file(till=3))
    with pytest.raises(PipelineError, match=rf"keys as protobuf \(schema sha256:\w+, {KEY}\), not protobuf \("):
        write_topic(shops, topic, key_schema=other, **given)
    assert len(read_all(bootstrap, topic)) == 1
