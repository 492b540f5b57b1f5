"""The framing of a schema registry: versions of a schema beside each other, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipelines.schema_registries import register, small_registry
from tests.pipelines.topics import Record, produce, read_all

from tidelog.pipelines import PipelineError, read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)
MakeTopic = Callable[..., str]
FIRST: dict[str, Any] = {"type": "record", "name": "Pair", "fields": [{"name": "n", "type": "int"}]}
SECOND: dict[str, Any] = {
    **FIRST,
    "fields": [*FIRST["fields"], {"name": "s", "type": "string", "default": "none"}],
}


def framed(identity: int, payload: bytes) -> bytes:
    return b"\x00" + identity.to_bytes(4, "big") + payload


def read_through(registry: str, spark: SparkSession, bootstrap: str, topic: str) -> None:
    subject = f"{topic}-value"
    with pytest.raises(PipelineError, match=f"has no subject {subject}"):
        read_topic(spark, topic, bootstrap=bootstrap, value="registry-avro", registry=registry)
    first, second = register(registry, subject, FIRST), register(registry, subject, SECOND)
    good = [framed(first, b"\x02"), framed(second, b"\x04\x04hi"), None]
    bad = [framed(second, b"\x04\x40hi"), b"\x00\x00", b"\x01" + framed(first, b"\x02")[1:], framed(0, b"\x02")]
    produce(bootstrap, topic, [Record(value=value) for value in (*good, *bad)])
    rows = read_topic(spark, topic, bootstrap=bootstrap, value="registry-avro", registry=registry).collect()
    assert [row.value and row.value.asDict() for row in rows] == [{"n": 1, "s": "none"}, {"n": 2, "s": "hi"}, None]
    letters = read_all(bootstrap, f"{topic}.dead-letters")
    assert [letter.value for letter in letters] == bad
    reasons = [dict(letter.headers)["tidelog.dead-letter.reason"].decode() for letter in letters]
    assert reasons == [
        "value: not Avro of the schema Pair",
        "value: not framed for a schema registry",
        "value: not framed for a schema registry",
        f"value: schema id 0 is not one of subject {subject}",
    ]
    # A version that came after the query: nothing is taken for bad that is only new.
    df = read_topic(spark, topic, bootstrap=bootstrap, value="registry-avro", registry=registry)
    third = register(registry, subject, {**SECOND, "doc": "a third version"})
    produce(bootstrap, topic, [Record(value=framed(third, b"\x06\x04ho"))])
    with pytest.raises(Exception, match=f"schema id {third} is newer than the versions of {subject}"):
        df.collect()
    again = read_topic(spark, topic, bootstrap=bootstrap, value="registry-avro", registry=registry).collect()
    assert again[-1].value.asDict() == {"n": 3, "s": "ho"}


def test_versions_of_a_schema(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    with small_registry() as registry:
        read_through(registry, spark, bootstrap, make_topic())
    with pytest.raises(PipelineError, match=f"the schema registry at {registry} cannot be read") as caught:
        read_topic(spark, make_topic(), bootstrap=bootstrap, value="registry-avro", registry=registry)
    assert "\n" not in str(caught.value)
