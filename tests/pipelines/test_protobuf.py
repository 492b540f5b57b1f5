"""Protobuf into frames and out of them, from messages that Google's library wrote and for it to read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
from tests.pipelines.messages import (
    FULL,
    ORDER,
    described,
    full_order,
    message_class,
    order_file,
    write_descriptor,
)
from tests.pipelines.processes import HERE, RUN_TIMEOUT_S
from tests.pipelines.topics import Record, produce, read_all
from tests.servers.tools import missing

from tidelog.pipelines import PipelineError, TopicWrite, read_topic, write_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)
MakeTopic = Callable[..., str]


@pytest.fixture
def descriptor(tmp_path: Path) -> str:
    return write_descriptor(tmp_path / "orders.desc", order_file())


def test_messages_become_columns_and_what_is_none_a_dead_letter(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, descriptor: str
) -> None:
    topic, kind = make_topic(), message_class(described(order_file()), ORDER)
    bad = [b"\xff\xff\xff", kind(name="ab").SerializeToString().replace(b"ab", b"\xff\xfe")]
    values = [full_order(kind).SerializeToString(), bad[0], None, b"", bad[1]]
    produce(bootstrap, topic, [Record(key=b"k", value=value) for value in values])
    df = read_topic(spark, topic, bootstrap=bootstrap, value="protobuf", schema=descriptor, message=ORDER)
    rows = df.collect()
    assert [row.offset for row in rows] == [0, 2, 3]
    full = rows[0].value.asDict(recursive=True)
    assert (full.pop("at"), full.pop("took")) == (
        datetime(2026, 11, 17, 1, 2, 3, 4),
        timedelta(microseconds=-1_500_000),
    )
    assert full == FULL
    assert rows[1].value is None
    assert (rows[2].value.id, rows[2].value.state, rows[2].value.first, rows[2].value.lines) == (0, "NEW", None, [])
    letters = read_all(bootstrap, f"{topic}.dead-letters")
    assert [letter.value for letter in letters] == bad
    reasons = {dict(letter.headers)["tidelog.dead-letter.reason"].decode() for letter in letters}
    assert reasons == {f"value: not Protobuf of the message {ORDER}"}
    # A filter that could be put before the parser must not hide a bad record, nor parse it twice.
    stopping = read_topic(
        spark, topic, bootstrap=bootstrap, value="protobuf", schema=descriptor, message=ORDER, on_bad="fail"
    )
    with pytest.raises(Exception, match=f"bad record in topic {topic}, partition 0, offset 1: value: not Protobuf"):
        stopping.where("value.id < 0").select("key").collect()


def test_a_stream_of_messages_is_written_once_for_other_readers(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, descriptor: str, checkpoint: str
) -> None:
    source, sink, kind = (
        make_topic(partitions=2),
        make_topic(partitions=3),
        message_class(described(order_file()), ORDER),
    )
    produce(
        bootstrap,
        source,
        [Record(key=str(n).encode(), value=kind(id=n, cash=n).SerializeToString()) for n in range(50)],
    )
    protobuf: dict[str, Any] = {"schema": descriptor, "message": ORDER}
    orders = read_topic(spark, source, bootstrap=bootstrap, value="protobuf", stream=True, **protobuf)
    query = write_topic(
        orders.where("value.id % 2 = 0"),
        sink,
        bootstrap=bootstrap,
        value_format="protobuf",
        checkpoint=checkpoint,
        trigger="available-now",
        **protobuf,
    )
    try:
        assert query.awaitTermination(300)
    finally:
        query.stop()
    # The tasks that read the topic decode, encode and write: nothing was moved between tasks.
    assert json.loads(Path(checkpoint, "tidelog/topic-sink.json").read_text())["layouts"][0]["by_source"]
    written = [(int(record.key or b""), kind.FromString(record.value or b"")) for record in read_all(bootstrap, sink)]
    assert sorted(number for number, _ in written) == list(range(0, 50, 2))
    assert all(message == kind(id=number, cash=number) for number, message in written)


def test_columns_are_written_as_messages_and_must_fit(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, descriptor: str
) -> None:
    topic, kind = make_topic(), message_class(described(order_file()), ORDER)
    given: dict[str, Any] = {"bootstrap": bootstrap, "value_format": "protobuf", "schema": descriptor, "message": ORDER}
    statement = (
        "SELECT {} AS key, CAST(7 AS SMALLINT) AS id, 'PAID' AS state, array(named_struct('count', 3)) AS lines,"
        " map('x', 1L) AS labels, TIMESTAMP '2026-11-17 01:02:03.000004' AS at, INTERVAL '-1.5' SECOND AS took"
    )
    result = write_topic(spark.sql(statement.format("'a'")), topic, **given)
    assert result == TopicWrite(topic=topic, rows=1)
    [record] = read_all(bootstrap, topic)
    expected = kind(id=7, state=1, labels={"x": 1})
    expected.lines.add(count=3)
    expected.at.FromJsonString("2026-11-17T01:02:03.000004Z")
    expected.took.FromMicroseconds(-1_500_000)
    assert kind.FromString(record.value or b"") == expected
    wrong: list[tuple[str, str]] = [
        ("1 AS identity", f"the Protobuf message {ORDER} has no field identity; it has id, small"),
        ("'x' AS value", f"the Protobuf message {ORDER} has no field value; it has id, small"),
        ("'7' AS id", f"field id of the Protobuf message {ORDER} is bigint, not string: cast the column"),
        ("named_struct('size', 1) AS first", "field first of .* has no field size; it has item, count"),
        ("array(1.5D) AS scores", "field scores of .* is int, not double"),
    ]
    for column, message in wrong:
        with pytest.raises(PipelineError, match=message) as caught:
            write_topic(spark.sql(f"SELECT {column}"), topic, **given)
        assert "\n" not in str(caught.value)
    with pytest.raises(Exception, match=f"a row does not fit the Protobuf message {ORDER}: state is 'LOST'"):
        write_topic(spark.sql("SELECT 'LOST' AS state"), topic, **given)
    assert len(read_all(bootstrap, topic)) == 1


def describe(path: Path) -> Callable[..., bytes]:
    """Writes the descriptor file of a message with a number and a text, and returns how one is serialised."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="pair.proto", package="tidelog.test", syntax="proto3")
    pair = file.message_type.add(name="Pair")
    optional = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    pair.field.add(name="n", number=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_INT32, label=optional)
    pair.field.add(name="s", number=2, type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING, label=optional)
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("tidelog.test.Pair"))
    return lambda **fields: bytes(message(**fields).SerializeToString())


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_same_by_sparks_own_functions_where_their_jar_can_be_had(
    requirements: None, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, descriptor = make_topic(), tmp_path / "pair.desc"
    pair = describe(descriptor)
    bad = [b"\xff\xff\xff", b"\x0a"]
    good = [pair(n=1, s="one"), pair(n=2), pair(), None]
    produce(bootstrap, topic, [Record(value=value) for value in (*good, *bad)])
    done = subprocess.run(
        [sys.executable, str(HERE / "protobuf_reader.py"), bootstrap, topic, str(descriptor)],
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    if "missing" in found:
        missing(found["missing"])
    assert found["values"] == [{"n": 1, "s": "one"}, {"n": 2, "s": ""}, {"n": 0, "s": ""}, None]
    assert [letter.value for letter in read_all(bootstrap, f"{topic}.dead-letters")] == bad
