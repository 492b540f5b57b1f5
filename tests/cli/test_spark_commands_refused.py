"""What the commands that run on Spark refuse before a JVM is started: here none could be, JAVA_HOME is empty."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.command import Command

ARCHIVED = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")


@pytest.fixture
def no_java(tidelog: Command, tmp_path: Path) -> Command:
    """The command on a machine that has no Java."""
    tidelog.environment["JAVA_HOME"] = str(tmp_path / "no-java")
    return tidelog


def delta_table(path: Path, columns: tuple[str, ...] = ARCHIVED) -> str:
    """The log of a Delta table with these columns; its files are not looked at by what is tested here."""
    fields = [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in columns]
    schema = json.dumps({"type": "struct", "fields": fields})
    (path / "_delta_log").mkdir(parents=True)
    commit = json.dumps({"metaData": {"schemaString": schema}})
    (path / "_delta_log" / f"{0:020}.json").write_text(f'{{"commitInfo":{{}}}}\n{commit}\n'.replace(": ", ":"))
    return str(path)


def test_what_is_there_comes_as_far_as_java(no_java: Command, new_topic: Callable[..., str], tmp_path: Path) -> None:
    """The proof that the other tests here see refusals from before that."""
    table = delta_table(tmp_path / "table")
    for arguments in (("audit", new_topic(), table), ("replay", table, "--to", new_topic()), ("compact", table)):
        assert "has no bin/java; Spark needs Java 17" in no_java(*arguments, fails=True).err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("audit", "no-such-topic", "{table}"), "topic no-such-topic does not exist on "),
        (("audit", "{topic}", "{tmp}/nothing"), "/nothing does not exist; `tidelog archive TOPIC --to "),
        (("audit", "{topic}", "{empty}"), " holds no table: no Parquet files, no Delta log, no Iceberg metadata"),
        (("audit", "{topic}", "{other}"), "is no archive of a topic: it has no column partition, offset, key, value"),
        (("replay", "{table}", "--to", "no-such-topic"), "topic no-such-topic does not exist on "),
        (("replay", "{tmp}/nothing", "--to", "{topic}"), "/nothing does not exist"),
        (("replay", "{other}", "--to", "{topic}"), "; a pipeline file can write any table to a topic"),
        (("replay", "{table}", "--to", "{topic}", "--from-time", "noon"), "--from-time: 'noon' is no time"),
        (
            ("replay", "{table}", "--to", "{topic}", "--from-time", "1h", "--until-time", "2h"),
            "no record is in that range of time: it ends before it begins",
        ),
        (("compact", "{tmp}/nothing"), "/nothing does not exist"),
        (("compact", "{file}"), "is a file; a table is a directory"),
        (("compact", "{table}", "--master", "sparc://x"), "master 'sparc://x': use local[N], spark://"),
        (("archive", "no-such-topic", "--to", "{tmp}/new"), "tidelog: topic no-such-topic does not exist on "),
        (("archive", "{topic}", "--to", "{tmp}/new", "--start", "noon"), "start='noon': neither 'earliest'"),
        (("archive", "{topic}", "--to", "{tmp}/new", "--batch", "-1"), "--batch must not be negative"),
        (("archive", "{topic}", "--to", "{file}"), "is a file, not a directory"),
        (("archive", "{topic}", "--to", "{table}", "--format", "iceberg"), "is a table in the format delta, not iceb"),
    ],
)
def test_one_line_before_a_jvm(
    no_java: Command, new_topic: Callable[..., str], tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    places = {
        "topic": new_topic(),
        "tmp": str(tmp_path),
        "file": str(tmp_path / "file"),
        "empty": str(tmp_path / "empty"),
        "table": delta_table(tmp_path / "table"),
        "other": delta_table(tmp_path / "other", ("id", "amount")),
    }
    done = no_java(*(argument.format(**places) for argument in arguments), fails=True)
    assert words in done.err
    assert not (tmp_path / "new").exists(), "an archive that was refused left something behind"


@pytest.mark.parametrize("arguments", [("audit", "t", "{table}"), ("replay", "{table}", "--to", "t"),
                                       ("archive", "t", "--to", "{new}"), ("pipeline", "run", "{file}"),
                                       ("pipeline", "plan", "{file}")])  # fmt: skip
def test_no_broker(no_java: Command, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{taken.getsockname()[1]}"
    file = tmp_path / "p.yaml"
    file.write_text("sources: {a: {topic: t, value: bytes}}\nsinks: {s: {from: a, table: ./s}}\n")
    places = {"table": delta_table(tmp_path / "table"), "new": str(tmp_path / "new"), "file": str(file)}
    done = no_java(*(argument.format(**places) for argument in arguments), "-b", nowhere, fails=True)
    assert f"no broker answers at {nowhere}: connection refused; start one with `tidelog serve`" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.yaml", "table"]


@pytest.mark.parametrize(
    ("source", "sink", "words"),
    [
        ("{topic: no-such-topic, value: bytes}", "{from: a, console: true}", "line 1: source a: topic no-such-topic"),
        ("{table: ./nothing}", "{from: a, console: true}", "line 1: source a: "),
        ("{table: ./table}", "{from: a, console: true}", "is a table in the format delta, not parquet"),
        ("{files: ./nothing, schema: id INT}", "{from: a, console: true}", "/nothing does not exist"),
        ("{topic: TOPIC, value: bytes}", "{from: a, topic: no-such-topic}", "line 2: sink s: topic no-such-topic"),
        ("{topic: TOPIC, value: bytes}", "{from: a, table: ./table}", "line 2: sink s: "),
        ("{topic: TOPIC, value: bytes}", "{from: a, table: ./p.yaml/t}", "p.yaml is a file, not a directory"),
        ("{topic: TOPIC, value: protobuf, schema: ./no, message: m}", "{from: a, console: true}", "/no of its values"),
    ],
)
def test_parts_of_a_pipeline(
    no_java: Command, new_topic: Callable[..., str], tmp_path: Path, source: str, sink: str, words: str
) -> None:
    delta_table(tmp_path / "table")
    file = tmp_path / "p.yaml"
    file.write_text(f"sources: {{a: {source}}}\nsinks: {{s: {sink}}}\n".replace("TOPIC", new_topic()))
    assert words in no_java("pipeline", "run", str(file), fails=True).err
    assert not (tmp_path / ".tidelog").exists(), "a run that was refused left a checkpoint behind"


def test_validate_looks_into_sql_types_and_modules(no_java: Command, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "sources: {a: {topic: t, schema: id BIGINTT}}\n"
        "steps:\n"
        "  b: {sql: SELECT value.id FROM a WHER value.id > 1}\n"
        "  c: {from: b, python: no_such_module:f}\n"
        "sinks: {s: {from: c, console: true}}\n"
    )
    process = no_java.start("pipeline", "validate", str(file))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert [line.partition(": ")[2].partition(";")[0] for line in errors.decode().splitlines()] == [
        f"{file} line 1: source a: unknown type BIGINTT (did you mean BIGINT?)",
        f"{file} line 3: step b: SQL syntax error at WHER (did you mean WHERE?)",
        f"{file} line 4: step c: No module named 'no_such_module'",
    ]
    assert "line 1: source a: unknown type BIGINTT" in no_java("pipeline", "run", str(file), fails=True).err
