"""The `sources:` of a pipeline file, and what sources and steps have in common: watermark, rules, dead letters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, TypedDict, cast

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.spec.document import Section, Text
from tidelog.pipelines.spec.model import (
    FilesSource,
    Otherwise,
    Rule,
    Source,
    TableSource,
    TopicSource,
    Watermark,
)
from tidelog.pipelines.spec.suggestions import did_you_mean
from tidelog.pipelines.topics.positions import check_start

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
RECORD_FORMATS = ("json", "text", "bytes", "csv", "avro", "protobuf", "registry-avro", "registry-protobuf")
TABLE_FORMATS = ("parquet", "delta", "iceberg")
FILE_FORMATS = ("json", "csv", "parquet", "text", "orc", "avro")
KINDS = ("topic", "table", "files")
OTHERWISE = ("warn", "drop", "fail")


class RelationKeys(TypedDict):
    name: str
    line: int
    watermark: Watermark | None
    rules: tuple[Rule, ...]
    dead_letters: str


def read_source(section: Section, name: str, line: int, directory: Path, dead_letters: str) -> Source | None:
    relation = read_relation_keys(section, name, line, dead_letters)
    kind = read_kind(section, KINDS)
    if kind == "topic":
        return _read_topic(section, relation, directory)
    if kind == "table":
        location = section.required_word("table", "a path, or the name of a table in Spark's catalog")
        return TableSource(
            **relation,
            location=resolve_table(directory, location),
            format=section.choice("format", TABLE_FORMATS, "parquet"),
            streaming=section.boolean("streaming", False),
            options=section.pairs("options"),
        )
    if kind == "files":
        return _read_files(section, relation, directory)
    return None


def read_kind(section: Section, kinds: tuple[str, ...]) -> str:
    """Which of `kinds` the section is by its keys; complains unless it is exactly one."""
    given = [kind for kind in kinds if section.has(kind)]
    if len(given) == 1:
        return given[0]
    if given:
        section.complain(given[1], f"{section.name} has {' and '.join(given)}; it can be one of them only")
    else:
        near = next((near for key in section.keys if (near := did_you_mean(key, kinds))), "")
        choices = ", ".join(f"`{kind}:`" for kind in kinds)
        section.document.complain(section.line, f"{section.name} needs one of {choices}{near}")
    section.ignore_all()
    return ""


def read_relation_keys(section: Section, name: str, line: int, dead_letters: str) -> RelationKeys:
    dead_letters = section.word("dead-letters", dead_letters)
    if dead_letters:
        check_topic_name(section, "dead-letters", dead_letters)
    # A topic has a topic for its dead letters of its own.
    rules = tuple(_read_rules(section, name, has_dead_letters=bool(dead_letters) or section.has("topic")))
    return RelationKeys(
        name=name, line=line, watermark=_read_watermark(section), rules=rules, dead_letters=dead_letters
    )


def _read_watermark(section: Section) -> Watermark | None:
    inner = section.section("watermark", f"watermark of {section.name}")
    if inner is None:
        return None
    watermark = Watermark(
        column=inner.required_word("column", "a timestamp"),
        delay_ms=inner.duration_ms("delay", 0),
        line=section.line_of("watermark"),
    )
    if not inner.has("delay"):
        inner.document.complain(inner.line, f"{inner.name} needs `delay:` (how late a row may be, such as 10 minutes)")
    inner.close()
    return watermark


def _read_rules(section: Section, name: str, *, has_dead_letters: bool) -> list[Rule]:
    rules: list[Rule] = []
    for inner in section.listed_sections("rules", f"rule of {section.name}"):
        expect = inner.required_word("expect", "a SQL predicate that rows should meet")
        rule = Rule(
            name=inner.word("name", f"{name}_{len(rules) + 1}"),
            expect=" ".join(expect.split()),
            otherwise=cast(Otherwise, inner.choice("otherwise", OTHERWISE, "fail")),
            line=inner.line_of("expect"),
        )
        inner.close()
        if not re.fullmatch(r"[A-Za-z0-9_ -]{1,100}", rule.name):
            inner.complain(
                "name", f"the name of a rule may have letters, digits, blanks, - and _ only, not {rule.name}"
            )
        if any(rule.name == other.name for other in rules):
            inner.complain("name", f"{section.name} has two rules named {rule.name}; rename one")
        if rule.otherwise == "drop" and not has_dead_letters:
            inner.complain(
                "otherwise", f"rule {rule.name} drops rows, so {section.name} needs `dead-letters:` (a topic)"
            )
        rules.append(rule)
    return rules


def check_topic_name(section: Section, key: str, topic: str) -> None:
    if topic and (not TOPIC_NAME.fullmatch(topic) or topic in (".", "..")):
        section.complain(key, f"{topic!r} is no name for a topic: up to 249 letters, digits, `.`, `_` and `-`")


def _read_topic(section: Section, relation: RelationKeys, directory: Path) -> TopicSource:
    topics = tuple(text.value for text in section.words("topic"))
    for topic in topics:
        check_topic_name(section, "topic", topic)
    if not topics:
        section.complain("topic", f"{section.name} needs the name of a topic")
    if not relation["dead_letters"] and topics:
        relation["dead_letters"] = f"{topics[0]}.dead-letters"
    value, key = section.choice("value", RECORD_FORMATS, "json"), section.choice("key", RECORD_FORMATS, "text")
    schema, schema_line = _read_schema(section, "schema", value, directory)
    key_schema, key_schema_line = _read_schema(section, "key-schema", key, directory)
    source = TopicSource(
        **relation,
        topics=topics,
        value=value,
        schema=schema,
        schema_line=schema_line,
        message=section.word("message"),
        key=key,
        key_schema=key_schema,
        key_schema_line=key_schema_line,
        key_message=section.word("key-message"),
        registry=section.word("registry"),
        start=_read_start(section),
        streaming=section.boolean("streaming", True),
        on_invalid=cast(
            Literal["dead-letters", "stop"], section.choice("on-invalid", ("dead-letters", "stop"), "dead-letters")
        ),
        on_data_loss=cast(Literal["stop", "continue"], section.choice("on-data-loss", ("stop", "continue"), "stop")),
        records_per_batch_max=section.integer("records-per-batch", 0, minimum=1),
        options=section.pairs("options"),
    )
    _check_format(section, source)
    return source


_REGISTRY = {"registry": "the URL of the schema registry"}
_NEEDS = {
    "avro": {"schema": "an Avro schema"},
    "csv": {"schema": "id BIGINT, name STRING, ..."},
    "protobuf": {"schema": "a descriptor file", "message": "the type of the {part}s in the descriptor file"},
    "registry-avro": _REGISTRY,
    "registry-protobuf": _REGISTRY,
}


def _check_format(section: Section, source: TopicSource) -> None:
    for part, prefix, name in (("value", "", source.value), ("key", "key-", source.key)):
        for need, what in _NEEDS.get(name, {}).items():
            key = need if need == "registry" else f"{prefix}{need}"
            if not section.has(key):
                text = f"{section.name} needs `{key}:` ({what.format(part=part)}) to read {name}"
                section.document.complain(section.line, text if part == "value" else f"{text} keys")
    if source.registry and not (source.value.startswith("registry-") or source.key.startswith("registry-")):
        text = f"{section.name} reads {source.value}; `registry:` is for `value: registry-avro` and registry-protobuf"
        section.complain("registry", text)
    for key in ("key-schema", "key-message"):
        if section.has(key) and source.key in ("text", "bytes"):
            section.complain(
                key, f"{section.name} reads {source.key} keys; `{key}:` is for `key: json`, avro, protobuf"
            )


def _read_schema(section: Section, key: str, format_name: str, directory: Path) -> tuple[str, int]:
    """A schema, and the line it begins on."""
    found = section.text(key)
    if found is None:
        return "", 0
    return resolve_schema(directory, format_name, found.value.strip()), found.first_line


def resolve_schema(directory: Path, format_name: str, text: str) -> str:
    """The schema of a format: Protobuf's is a file, all others stand where they are."""
    return resolve_path(directory, text) if format_name in ("protobuf", "registry-protobuf") else text


def _read_start(section: Section) -> str | dict[int, int]:
    if not section.is_section("start"):
        start = section.word("start", "earliest")
        try:
            check_start(start)
        except PipelineError as error:
            section.complain("start", f"start of {section.name}: {error}")
        return start
    offsets = {}
    for partition, offset in section.pairs("start").items():
        if not (partition.isdigit() and offset.lstrip("-").isdigit()):
            section.complain("start", f"start of {section.name} maps partitions to offsets, not {partition}: {offset}")
        else:
            offsets[int(partition)] = int(offset)
    return offsets


def _read_files(section: Section, relation: RelationKeys, directory: Path) -> FilesSource:
    location = section.required_word("files", "a directory or a pattern such as landing/*.json")
    streaming = section.boolean("streaming", True)
    format_name = section.choice("format", FILE_FORMATS, "json")
    schema: Text | None = section.text("schema")
    if streaming and schema is None and format_name != "text":
        section.document.complain(
            section.line, f"{section.name} needs `schema:` (id BIGINT, name STRING, ...) to be read as a stream"
        )
    return FilesSource(
        **relation,
        location=resolve_path(directory, location),
        format=format_name,
        schema=schema.value.strip() if schema else "",
        schema_line=schema.first_line if schema else 0,
        streaming=streaming,
        options=section.pairs("options"),
    )


def resolve_path(directory: Path, location: str) -> str:
    """Relative paths are relative to the pipeline file; addresses (`s3a://...`) stay as they are."""
    return location if "://" in location or not location else str((directory / location).absolute())


def resolve_table(directory: Path, location: str) -> str:
    """A table is a path when it has a slash, else a name in Spark's catalog."""
    return resolve_path(directory, location) if "/" in location else location
