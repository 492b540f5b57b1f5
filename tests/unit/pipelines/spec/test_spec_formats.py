"""What a pipeline file says about the formats of keys and values, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.pipelines.formats.protobuf_format import PROTOBUF_PACKAGE
from tidelog.pipelines.run.queries import packages_needed
from tidelog.pipelines.spec.document import SpecError
from tidelog.pipelines.spec.model import Pipeline, TopicSink, TopicSource
from tidelog.pipelines.spec.read import read_pipeline


def read(tmp_path: Path, text: str) -> Pipeline:
    path = tmp_path / "shop.yaml"
    path.write_text(text)
    return read_pipeline(path, {})


def test_a_descriptor_is_found_beside_the_file(tmp_path: Path) -> None:
    text = """
sources:
  orders: {topic: orders, value: protobuf, schema: protos/orders.desc, message: shop.Order}
sinks:
  all: {from: orders, console: true}
"""
    pipeline = read(tmp_path, text)
    source = pipeline.sources["orders"]
    assert isinstance(source, TopicSource)
    assert source.schema == str(tmp_path / "protos" / "orders.desc")
    # Spark's own functions for it are not needed, and fetched when the file asks for them.
    assert packages_needed(pipeline) == ()
    asked = read(tmp_path, f"{text}\nspark: {{packages: '{PROTOBUF_PACKAGE}, a:b:1'}}")
    assert packages_needed(asked) == (PROTOBUF_PACKAGE, "a:b:1")


def test_what_a_topic_is_written_as(tmp_path: Path) -> None:
    text = """
sources:
  orders: {topic: orders, value: registry-protobuf, registry: "http://r:8081", message: shop.Order}
sinks:
  plain: {from: orders, topic: a}
  proto: {from: orders, topic: b, format: protobuf, schema: protos/orders.desc, message: shop.Order}
  framed: {from: orders, topic: c, format: registry-avro, registry: "http://r:8081"}
"""
    sinks = [sink for sink in read(tmp_path, text).sinks.values() if isinstance(sink, TopicSink)]
    assert [(sink.format, sink.schema, sink.message, sink.registry) for sink in sinks] == [
        ("json", "", "", ""),
        ("protobuf", str(tmp_path / "protos" / "orders.desc"), "shop.Order", ""),
        ("registry-avro", "", "", "http://r:8081"),
    ]


def test_what_keys_are_read_and_written_as(tmp_path: Path) -> None:
    text = """
sources:
  plain: {topic: a}
  typed:
    topic: b
    key: protobuf
    key-schema: protos/keys.desc
    key-message: shop.Key
  framed: {topic: c, value: text, key: registry-avro, registry: "http://r:8081"}
sinks:
  plain: {from: plain, topic: d}
  avro: {from: typed, topic: e, key: id, key-format: avro, key-schema: long}
  framed: {from: framed, topic: f, key-format: registry-protobuf, key-message: shop.Key, registry: "http://r:8081"}
"""
    pipeline, descriptor = read(tmp_path, text), str(tmp_path / "protos" / "keys.desc")
    sources = [source for source in pipeline.sources.values() if isinstance(source, TopicSource)]
    assert [(source.key, source.key_schema, source.key_schema_line, source.key_message) for source in sources] == [
        ("text", "", 0, ""),
        ("protobuf", descriptor, 7, "shop.Key"),
        ("registry-avro", "", 0, ""),
    ]
    sinks = [sink for sink in pipeline.sinks.values() if isinstance(sink, TopicSink)]
    assert [(sink.key_format, sink.key_schema, sink.key_message, sink.registry) for sink in sinks] == [
        ("json", "", "", ""),
        ("avro", "long", "", ""),
        ("registry-protobuf", "", "shop.Key", "http://r:8081"),
    ]


FILE = """\
sources:
  orders:
    topic: orders
    {source}
sinks:
  out:
    from: orders
    topic: copies
    {sink}
"""


@pytest.mark.parametrize(
    ("source", "sink", "expected"),
    [
        (
            "",
            "{format: protobuf, registry: 'http://r'}",
            [
                "line 7: sink out needs `schema:` (an Avro schema, or a Protobuf descriptor file) to write protobuf",
                "line 7: sink out needs `message:` (the type of the values in the descriptor file) to write protobuf",
                "line 10: sink out writes protobuf; `registry:` is for `format: registry-avro` and registry-protobuf",
            ],
        ),
        (
            "",
            "{key-format: protobuf}",
            [
                "line 7: sink out needs `key-schema:` (an Avro schema, or a Protobuf descriptor file) to write"
                " protobuf keys",
                "line 7: sink out needs `key-message:` (the type of the keys in the descriptor file) to write"
                " protobuf keys",
            ],
        ),
        (
            "",
            "{key-format: avros, key-message: m}",
            [
                "line 9: key-format of sink out is avros (did you mean avro?); it can be json, avro, protobuf,"
                " registry-avro, registry-protobuf",
                "line 10: sink out writes JSON keys; `key-message:` is for `key-format: avro`, protobuf, registry-avro"
                " and registry-protobuf",
            ],
        ),
        (
            "{value: protobuf, key: csv}",
            "",
            [
                "line 3: source orders needs `schema:` (a descriptor file) to read protobuf",
                "line 3: source orders needs `message:` (the type of the values in the descriptor file) to read"
                " protobuf",
                "line 3: source orders needs `key-schema:` (id BIGINT, name STRING, ...) to read csv keys",
            ],
        ),
        (
            "{key: registry-avro}",
            "{key-format: registry-avro}",
            [
                "line 3: source orders needs `registry:` (the URL of the schema registry) to read registry-avro keys",
                "line 7: sink out needs `registry:` (the URL of the schema registry) to write registry-avro keys",
            ],
        ),
        (
            "{key: bytes, key-schema: long}",
            "",
            ["line 5: source orders reads bytes keys; `key-schema:` is for `key: json`, avro, protobuf"],
        ),
        (
            "{key: text, key_schema: long}",
            "",
            ["line 5: unknown key key_schema in source orders (did you mean key-schema?)"],
        ),
    ],
)
def test_a_format_that_lacks_something_has_its_line(
    tmp_path: Path, source: str, sink: str, expected: list[str]
) -> None:
    def lines(keys: str) -> str:
        return keys.strip("{}").replace(", ", "\n    ")

    with pytest.raises(SpecError) as caught:
        read(tmp_path, FILE.format(source=lines(source), sink=lines(sink)))
    path = tmp_path / "shop.yaml"
    assert [str(problem).removeprefix(f"{path} ") for problem in caught.value.problems] == expected
