"""The `sinks:` of a pipeline file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypedDict, cast

from tidelog.pipelines.delivery.triggers import Trigger
from tidelog.pipelines.spec.document import Section
from tidelog.pipelines.spec.model import (
    ConsoleSink,
    FilesSink,
    OutputMode,
    Sink,
    TableSink,
    TopicSink,
)
from tidelog.pipelines.spec.sources import (
    FILE_FORMATS,
    TABLE_FORMATS,
    check_topic_name,
    read_kind,
    resolve_path,
    resolve_schema,
    resolve_table,
)

KINDS = ("topic", "table", "files", "console")
MODES = ("append", "update", "complete")
PARTITIONERS = ("murmur2", "fnv1a", "crc32")
DELIVERIES = ("exactly-once", "at-least-once")
RECORD_FORMATS = ("json", "avro", "protobuf", "registry-avro", "registry-protobuf")


class OutputKeys(TypedDict):
    name: str
    line: int
    input: str
    mode: OutputMode
    trigger: Trigger
    options: dict[str, str]
    lines: dict[str, int]


def read_sink(section: Section, name: str, line: int, directory: Path, trigger: Trigger) -> Sink | None:
    kind = read_kind(section, KINDS)
    if not kind:
        return None
    output = OutputKeys(
        name=name,
        line=line,
        input=section.required_word("from", "the source or step whose rows go there"),
        mode=cast(OutputMode, section.choice("mode", MODES, "append")),
        trigger=trigger,
        options=section.pairs("options"),
        lines={key: section.line_of(key) for key in section.keys},
    )
    sink = _read_kind(section, kind, output, directory)
    _check_trigger_and_mode(section, sink)
    return sink


def _read_kind(section: Section, kind: str, output: OutputKeys, directory: Path) -> Sink:
    if kind == "topic":
        topic = section.required_word("topic", "its name")
        check_topic_name(section, "topic", topic)
        return TopicSink(
            **output,
            topic=topic,
            key=_columns(section, "key"),
            value=_columns(section, "value"),
            **_read_formats(section, directory),
            headers=section.word("headers"),
            timestamp=section.word("timestamp"),
            order_by=_columns(section, "order-by"),
            partitioner=section.choice("partitioner", PARTITIONERS, "murmur2"),
            partitions=section.integer("partitions", 0, minimum=1),
            delivery=cast(
                Literal["exactly-once", "at-least-once"], section.choice("delivery", DELIVERIES, "exactly-once")
            ),
        )
    if kind == "table":
        return _read_table(section, output, directory)
    if kind == "files":
        return FilesSink(
            **output,
            location=resolve_path(directory, section.required_word("files", "a directory")),
            format=section.choice("format", FILE_FORMATS, "parquet"),
            partition_by=_columns(section, "partition-by"),
        )
    section.boolean("console", True)
    return ConsoleSink(**output, rows_max=section.integer("rows", 20, minimum=1))


class FormatKeys(TypedDict):
    format: str
    schema: str
    message: str
    key_format: str
    key_schema: str
    key_message: str
    registry: str


_NEEDS = {
    "avro": ("schema",),
    "protobuf": ("schema", "message"),
    "registry-avro": ("registry",),
    "registry-protobuf": ("registry",),
}
_WHAT = {
    "schema": "an Avro schema, or a Protobuf descriptor file",
    "message": "the type of the {part}s in the descriptor file",
    "registry": "the URL of the schema registry",
}


def _read_formats(section: Section, directory: Path) -> FormatKeys:
    """How values and keys are written."""
    value, key = (section.choice(name, RECORD_FORMATS, "json") for name in ("format", "key-format"))
    for part, prefix, name in (("value", "", value), ("key", "key-", key)):
        for need in _NEEDS.get(name, ()):
            given = need if need == "registry" else f"{prefix}{need}"
            if not section.has(given):
                text = f"{section.name} needs `{given}:` ({_WHAT[need].format(part=part)}) to write {name}"
                section.document.complain(section.line, text if part == "value" else f"{text} keys")
    if section.has("registry") and not (value.startswith("registry-") or key.startswith("registry-")):
        text = f"{section.name} writes {value}; `registry:` is for `format: registry-avro` and registry-protobuf"
        section.complain("registry", text)
    for given in ("key-schema", "key-message"):
        if section.has(given) and key == "json":
            text = f"{section.name} writes JSON keys; `{given}:` is for `key-format: avro`, protobuf, registry-avro"
            section.complain(given, f"{text} and registry-protobuf")
    return FormatKeys(
        format=value,
        schema=_schema(section, "schema", value, directory),
        message=section.word("message"),
        key_format=key,
        key_schema=_schema(section, "key-schema", key, directory),
        key_message=section.word("key-message"),
        registry=section.word("registry"),
    )


def _schema(section: Section, key: str, format_name: str, directory: Path) -> str:
    found = section.text(key)
    return resolve_schema(directory, format_name, found.value.strip() if found else "")


def _columns(section: Section, key: str) -> tuple[str, ...]:
    return tuple(text.value for text in section.words(key))


def _read_table(section: Section, output: OutputKeys, directory: Path) -> TableSink:
    sink = TableSink(
        **output,
        location=resolve_table(directory, section.required_word("table", "a path, or a name in Spark's catalog")),
        format=section.choice("format", TABLE_FORMATS, "parquet"),
        write=cast(Literal["append", "upsert"], section.choice("write", ("append", "upsert"), "append")),
        key=_columns(section, "key"),
        order_by=_columns(section, "order-by"),
        exclude=_columns(section, "exclude"),
        delete_when=section.word("delete-when"),
        partition_by=_columns(section, "partition-by"),
    )
    if sink.write == "upsert":
        if not sink.key:
            section.document.complain(
                section.line, f"{section.name} needs `key:` (the columns that name a row) to upsert"
            )
        if sink.format == "parquet":
            section.complain("write", f"{section.name} cannot upsert into parquet; use `format: delta` or iceberg")
    elif sink.key or sink.delete_when:
        section.complain("key", f"{section.name} appends; `key:` and `delete-when:` are for `write: upsert`")
    return sink


def _check_trigger_and_mode(section: Section, sink: Sink) -> None:
    if sink.trigger.kind == "continuous":
        plain = isinstance(sink, TopicSink) and sink.delivery == "at-least-once"
        if not plain and not isinstance(sink, ConsoleSink):
            section.document.complain(
                section.line_of("trigger"),
                f"{section.name} cannot run continuously: Spark has no batches there, so only a topic with "
                "`delivery: at-least-once` or the console can take the rows; use an interval such as 1s",
            )
    append_only = isinstance(sink, FilesSink) or (isinstance(sink, TableSink) and sink.write == "append")
    if sink.mode != "append" and append_only:
        advice = "; use `write: upsert` with a `key:`" if isinstance(sink, TableSink) else ""
        section.complain("mode", f"{section.name} only takes new rows, not mode {sink.mode}{advice}")
    if sink.mode == "complete" and isinstance(sink, TableSink):
        section.complain("mode", f"{section.name}: an upsert takes mode append or update, not complete")
