"""What a sample of records is taken for, and the file that is written from it: it is judged as a user's would be."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tidelog.pipelines.spec.first_file import relation_name, write
from tidelog.pipelines.spec.judge import find_problems
from tidelog.pipelines.spec.model import Pipeline, TopicSource
from tidelog.pipelines.spec.read import read_pipeline
from tidelog.pipelines.spec.sample import Findings, judge


def objects(*values: Any) -> list[bytes | None]:
    return [json.dumps(value).encode() for value in values]


def framed(*payloads: bytes) -> list[bytes | None]:
    return [b"\0\0\0\0\7" + payload for payload in payloads]


def judged(values: list[bytes | None], keys: list[bytes | None] | None = None) -> Findings:
    return judge(keys or [], values)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (objects({"id": 1}), "json"),
        ([b"one", b"two"], "text"),
        (objects(1, [2]), "text"),
        (objects({}, {}), "text"),
        ([b"\xff\xfe", b"text"], "bytes"),
        ([], "text"),
        ([None], "text"),
        ([*objects({"id": 1}), b"one", b"\xff"], "bytes"),
        ([*objects({"id": 1}, {"id": 2}), b"one", b"\xff"], "json"),
        (framed(b"\x02\x06abc"), "registry-avro"),
        # The first message of its file, field 1 as a number, field 2 as text.
        (framed(b"\x00\x08\x01\x12\x03abc"), "registry-protobuf"),
        # The third message inside the first.
        (framed(b"\x04\x00\x04\x08\x01"), "registry-protobuf"),
        (framed(b'{"id": 1}'), "bytes"),
        ([*framed(b"\x02\x06abc"), b"one"], "text"),
    ],
)
def test_formats(values: list[bytes | None], expected: str) -> None:
    findings = judged(values)
    assert findings.format == expected
    assert judge_file(findings).sources["orders"].value == expected


def test_keys() -> None:
    assert judge([b"a", None], [None, None]).key == "text"
    assert judge([b"a", b"\xff"], [None, None]).key == "bytes"
    findings = judge([b"\0\0\0\0\7\2a"], [None])
    assert (findings.key, findings.is_key_framed) == ("bytes", True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"seen": "2026-11-16T10:00:12Z", "created_at": "2026-11-16T10:00:12Z"}, "created_at"),
        ({"seen": "2026-11-16T10:00:12Z", "created_at": 1}, "seen"),
        ({"at": "soon"}, ""),
    ],
)
def test_the_field_that_says_when(fields: dict[str, Any], expected: str) -> None:
    assert judged(objects(fields)).event_time == expected


# -- the file ----------------------------------------------------------------------------------------------------------


def judge_text(text: str) -> Pipeline:
    path = Path(re.findall(r"validate (\S+)", text)[0])
    path.write_text(text)
    pipeline = read_pipeline(path, {})
    assert find_problems(pipeline) == []
    return pipeline


def judge_file(findings: Findings, topic: str = "orders", **options: Any) -> Pipeline:
    """Writes the file, reads it as a user's, and once more with everything in it that is commented out."""
    text = write(topic, findings, file="made.yaml", **options)
    everything = re.sub(r"^( *)# (?=watermark: |rules:|  - \{name: |key: |delivery: )", r"\1", text, flags=re.MULTILINE)
    assert "\n    rules:\n      - {name: " in everything
    assert len(judge_text(everything).sources[relation_name(topic)].rules) == 1
    return judge_text(text)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def source_of(pipeline: Pipeline) -> TopicSource:
    [source] = pipeline.sources.values()
    assert isinstance(source, TopicSource)
    return source


@pytest.mark.parametrize("sink", ["table", "topic"])
def test_a_whole_file(sink: Any) -> None:
    values = objects(
        {"id": 1, "customer": {"my name": "a", "tags": ["x"]}, "amount": 9, "at": "2026-11-16T10:00:12Z", "note": None},
        {"id": 2, "amount": 9.5, "ID": 3, "bad\nname": 4},
    )
    findings = judge([b"c1"] * 3, [*values, None])
    pipeline = judge_file(findings, sink=sink, partitions=3)
    source = source_of(pipeline)
    assert source.schema.splitlines() == [
        "id BIGINT,",
        "customer STRUCT<`my name`: STRING, tags: ARRAY<STRING>>,",
        "amount DOUBLE,",
        "at TIMESTAMP,",
        "note STRING",
    ]
    assert (source.topics, source.dead_letters) == (("orders",), "orders.dead-letters")
    assert [type(made).__name__ for made in pipeline.sinks.values()] == [f"{sink.capitalize()}Sink"]
    text = write("orders", findings)
    assert "written from 3 records of it" in text
    assert "cannot name them beside the others: 'ID', 'bad\\nname'." in text
    assert "the type is a guess: note." in text
    assert "# watermark: {column: value.at, delay: 10 minutes}" in text
    assert "# rules:" in text


def test_how_many_do_not_fit_is_said() -> None:
    findings = judged([*objects({"id": 1}, {"id": 2}), b"one"])
    assert "# 1 record of 3 did not hold a JSON object." in write("orders", findings)


def test_frames_of_a_registry_are_explained() -> None:
    text = write("orders", judged(framed(b"\x02\x06abc")))
    assert "looks like Avro; if it is not, write registry-protobuf." in text
    assert "registry: ${SCHEMA_REGISTRY_URL:-http://127.0.0.1:8081}" in text
    assert "The data is JSON." in write("orders", judged(framed(b'{"id": 1}')))


@pytest.mark.parametrize("name", ["my field", "a`b", "it's", "a: b", "not", "}", '"', "#", "日本", "-", "' #"])
def test_names_that_need_quotes(name: str) -> None:
    for value in (1, "2026-11-16T10:00:12Z"):
        source = source_of(judge_file(judged(objects({name: value})), sink="topic"))
        assert source.schema.startswith("`")


@pytest.mark.parametrize("topic", ["orders-eu.v1", "1", "_", "123-a", "no", "true", "a" * 249, "-x", ".x", "1e3"])
@pytest.mark.parametrize("sink", ["table", "topic"])
def test_names_of_topics(topic: str, sink: Any) -> None:
    for values in (objects({"id": 1}), [b"one"]):
        pipeline = judge_file(judged(values), topic, sink=sink)
        assert source_of(pipeline).topics == (topic,)


def test_topics_with_the_names_of_words_of_sql() -> None:
    tokens = pytest.importorskip("sqlglot.dialects.spark").Spark.Tokenizer.KEYWORDS
    for word in sorted(word.lower() for word in tokens if re.fullmatch(r"[A-Z_]+", word)):
        assert source_of(judge_text(write(word, judged(objects({word: 1})), file="made.yaml"))).topics == (word,)
