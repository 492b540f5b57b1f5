"""`tidelog pipeline init` against a real broker; tests/pipelines runs what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Command, Topics


@pytest.fixture
def init(tidelog: Command, tmp_path: Path) -> Callable[..., str]:
    """Writes the file for a topic, has it judged, and gives its text."""

    def run(topic: str, *options: str) -> str:
        path = tmp_path / "made.yaml"
        path.unlink(missing_ok=True)
        done = tidelog("pipeline", "init", topic, "--to", str(path), *options)
        assert done.out.startswith(f"{path}: ")
        assert done.err == f"look into it, then: tidelog pipeline run {path}\n"
        assert tidelog("pipeline", "validate", str(path)).code == 0
        return path.read_text()

    return run


def values(*documents: Any) -> list[bytes]:
    return [json.dumps(document).encode() for document in documents]


def test_records_of_every_partition_and_of_both_ends_are_seen(
    init: Callable[..., str], topics: Topics, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=3)
    topics.fill(topic, 0, values({"first": 1}, *({"id": number} for number in range(1000)), {"last": True}))
    topics.fill(topic, 2, values({"alone": "2026-11-16T10:00:12Z"}))
    text = init(topic)
    assert "      first BIGINT,\n      id BIGINT,\n" in text
    assert "      last BOOLEAN" in text
    assert "      alone TIMESTAMP" in text
    assert "written from 133 records of it" in text


def test_what_is_not_json(init: Callable[..., str], topics: Topics, new_topic: Callable[..., str]) -> None:
    for records, expected in [
        ([b"one", "zwölf".encode()], "value: text"),
        ([b"\xff\x00"], "value: bytes"),
        ([*values({"id": 1}, {"id": 2}), b"\xff"], "# 1 record of 3 did not hold a JSON object.\n    value: json"),
        ([b"\0\0\0\0\1\2\6abc"], "value: registry-avro\n    registry: ${SCHEMA_REGISTRY_URL"),
        ([], "# Nothing is known about the records yet."),
        (
            values({"n": 2**64, "deep": {"a": [{"b c": [[1]]}]}}),
            "n DECIMAL(20,0),\n      deep STRUCT<a: ARRAY<STRUCT<`b",
        ),
    ]:
        topic = new_topic()
        topics.fill(topic, 0, records)
        assert expected in init(topic)
        assert expected in init(topic, "--sink", "topic")


def test_a_topic_with_more_partitions_than_are_looked_into(
    init: Callable[..., str], topics: Topics, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=120)
    topics.fill(topic, 0, values({"id": 1}))
    assert "id BIGINT" in init(topic)


def test_the_file_by_default_and_on_standard_output(
    tidelog: Command, topics: Topics, new_topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topic = new_topic()
    topics.fill(topic, 0, values({"id": 1}))
    shown = tidelog("pipeline", "init", topic, "--to", "-")
    assert (shown.err, list(tmp_path.iterdir())) == ("", [])
    assert tidelog("pipeline", "init", topic).out == f"{topic}.yaml: JSON with 1 field, found in 1 record\n"
    assert (tmp_path / f"{topic}.yaml").read_text() == shown.out


def test_what_is_wrong_is_one_line(tidelog: Command, new_topic: Callable[..., str], tmp_path: Path) -> None:
    topic, there = new_topic(), tmp_path / "there.yaml"
    there.write_text("mine")
    for arguments, problem in [
        ([topic, "--to", str(there)], f"{there} is there already; --force replaces it"),
        ([topic, "--to", str(tmp_path)], "is a directory; name a file with --to"),
        ([topic, "--to", str(there / "a.yaml")], "there.yaml/a.yaml: cannot be written: "),
        (["gone", "--to", str(tmp_path / "a.yaml")], "topic gone does not exist"),
        ([topic, "--to", str(tmp_path / "a.yaml"), "-b", "127.0.0.1:1"], "no broker answers at 127.0.0.1:1"),
        ([topic, "--sink", "file"], "invalid choice: 'file'"),
    ]:
        assert problem in tidelog("pipeline", "init", *arguments, fails=True).err
    assert there.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [there]
    tidelog("pipeline", "init", topic, "--to", str(there), "--force")
    assert there.read_text().startswith(f"# A pipeline for the topic {topic}")
