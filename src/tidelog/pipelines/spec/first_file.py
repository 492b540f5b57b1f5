"""A pipeline file to start from: what was found in a topic, with a comment on every key that can be changed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from tidelog.pipelines.spec.inference import Simple, fields_of, left_out, quoted, to_ddl
from tidelog.pipelines.spec.sample import Findings
from tidelog.pipelines.spec.sources import RECORD_FORMATS

SinkKind = Literal["table", "topic"]

NAME_CHARACTERS_MAX = 100
TOPIC_CHARACTERS_MAX = 249
NAMES_SHOWN_MAX = 5
REGISTRY = "${SCHEMA_REGISTRY_URL:-http://127.0.0.1:8081}"
_NUMBERS = ("BIGINT", "DOUBLE", "DECIMAL")
_COLUMNS = "key, value, headers, topic, partition, offset, timestamp"
# Words that SQL does not take for the name of a relation.
_RESERVED = frozenset(
    {
        "ALTER", "AND", "ANTI", "AS", "BETWEEN", "CREATE", "CROSS", "DISTINCT", "DROP", "ELSE", "EXCEPT", "FETCH",
        "FROM", "FULL", "GLOB", "GRANT", "GROUP", "HAVING", "ILIKE", "INNER", "INTERSECT", "INTO", "JOIN", "LATERAL",
        "LEFT", "LIKE", "LIMIT", "MINUS", "NATURAL", "NOT", "NOTNULL", "ON", "OR", "ORDER", "OUTER", "PARTITIONED_BY",
        "REGEXP", "RETURNING", "REVOKE", "RIGHT", "RLIKE", "ROLLBACK", "SELECT", "SEMI", "SERDEPROPERTIES", "SETMINUS",
        "STREAM", "TABLE", "THEN", "UNCACHE", "UNION", "UNNEST", "USING", "VALUES", "WHEN", "WHERE", "WINDOW", "WITH",
        "XOR",
    }
)  # fmt: skip


def relation_name(topic: str) -> str:
    """A name for the topic's records that SQL takes."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    if not re.match(r"[A-Za-z]", plain) or plain.upper() in _RESERVED:
        plain = f"records_{plain}".removesuffix("_")
    # What the step and the sink add to it has room.
    return plain[: NAME_CHARACTERS_MAX - 10]


def write(topic: str, findings: Findings, *, sink: SinkKind = "table", partitions: int = 1, file: str = "") -> str:
    """The text of the file."""
    source = relation_name(topic)
    lines = [
        *_head(topic, findings, file or f"{topic}.yaml"),
        *_source(topic, source, findings),
        *_step(source, findings),
        *_sink(topic, source, findings, sink, partitions),
    ]
    return "\n".join(lines) + "\n"


def _head(topic: str, findings: Findings, file: str) -> Iterator[str]:
    if findings.records:
        yield f"# A pipeline for the topic {topic}, written from {_count(findings.records, 'record')} of it. Edit it."
    else:
        yield f"# A pipeline for the topic {topic}, which had no records when this was written. Edit it."
    yield "#"
    yield f"#   tidelog pipeline validate {file}"
    yield f"#   tidelog pipeline run {file}"
    yield f"name: {relation_name(topic)}  # of the pipeline, and of the directory where its state is kept"
    yield "trigger: available-now  # what there is, then end; 10s: go on, and look every 10 seconds"
    yield "# bootstrap: 127.0.0.1:9092  # default: --bootstrap, a profile or TIDELOG_BOOTSTRAP"
    yield ""


def _source(topic: str, source: str, findings: Findings) -> Iterator[str]:
    letters = f"{topic[: TOPIC_CHARACTERS_MAX - 13]}.dead-letters"
    yield "sources:"
    yield f"  {source}:"
    yield f"    topic: {_word(topic)}  # or a list of topics"
    yield "    start: earliest  # or latest, a time, {partition: offset}; only the first run looks at it"
    yield from _key(findings)
    yield from _value(findings)
    yield "    # A record that cannot be read goes to a topic of its own; stop: it ends the run."
    yield "    on-invalid: dead-letters"
    yield f"    dead-letters: {_word(letters)}"
    yield from _watermark(findings)
    yield "    # What every row must meet, in SQL. drop: other rows go to the dead letters; warn: they are counted;"
    yield "    # fail: they end the run."
    yield "    # rules:"
    yield f"    #   - {{name: {_rule(findings)}, otherwise: drop}}"
    yield ""


def _key(findings: Findings) -> Iterator[str]:
    if findings.is_key_framed:
        yield "    # The keys are framed for a schema registry: registry-avro and registry-protobuf read them."
    yield f"    key: {findings.key}  # or {_others(findings.key)}"


def _value(findings: Findings) -> Iterator[str]:
    if findings.framed:
        yield from _framed(findings)
        return
    if not findings.records:
        yield "    # Nothing is known about the records yet. For JSON write `value: json` and a schema such as"
        yield "    # `schema: id BIGINT, amount DOUBLE, at TIMESTAMP`; or make this file again when there are records."
    elif findings.records == findings.tombstones:
        yield "    # No record of those looked at has a value."
    if findings.unfit:
        yield f"    # {_count(findings.unfit, 'record')} of {findings.records} did not hold a JSON object."
    yield f"    value: {findings.format}  # or {_others(findings.format)}"
    if findings.format == "json":
        yield from _schema(findings)


def _others(chosen: str) -> str:
    return ", ".join(name for name in RECORD_FORMATS if name != chosen)


def _framed(findings: Findings) -> Iterator[str]:
    yield "    # The values are in the wire format of a schema registry: a zero byte, the id of the schema, the data."
    if findings.framed == "json":
        yield "    # The data is JSON. No format here reads that, so the rows have the bytes."
        yield "    value: bytes"
        return
    other = "protobuf" if findings.framed == "avro" else "avro"
    yield f"    # The data looks like {findings.framed.capitalize()}; if it is not, write registry-{other}."
    yield f"    value: {findings.format}"
    yield f"    registry: {REGISTRY}  # where the schemas are"


def _schema(findings: Findings) -> Iterator[str]:
    yield "    # Fields that are not named here are left out of the rows, and a field that a record lacks is NULL."
    yield "    # A value of another type makes a record a bad one; STRING takes any value, objects too, as its text."
    unnamed = list(left_out(findings.schema))
    if unnamed:
        shown = ", ".join(ascii(name) for name in unnamed[:NAMES_SHOWN_MAX])
        more = f" and {len(unnamed) - NAMES_SHOWN_MAX} more" if len(unnamed) > NAMES_SHOWN_MAX else ""
        yield f"    # Left out, as a schema cannot name them beside the others: {shown}{more}."
    fields, _ = fields_of(findings.schema)
    empty = [name for name, type_ in fields.items() if type_ == Simple("VOID")]
    if empty:
        shown = ", ".join(empty[:NAMES_SHOWN_MAX]) + (", ..." if len(empty) > NAMES_SHOWN_MAX else "")
        yield f"    # Only null was seen, so the type is a guess: {shown}."
    yield "    schema: |"
    rows = [f"      {quoted(name)} {to_ddl(type_)}" for name, type_ in fields.items()]
    yield ",\n".join(rows)


def _watermark(findings: Findings) -> Iterator[str]:
    yield "    # How late a record may be. Windows, deduplication and joins of streams keep state for so long."
    name = findings.event_time
    if name:
        text = _flow(f"value.{quoted(name)}")
        yield f"    # watermark: {{column: {text}, delay: 10 minutes}}"
    else:
        yield "    # watermark: {column: timestamp, delay: 10 minutes}  # the time of the record itself"


def _rule(findings: Findings) -> str:
    fields, _ = fields_of(findings.schema)
    for name, type_ in fields.items():
        if isinstance(type_, Simple) and type_.name in _NUMBERS:
            called = f"{name} is there" if re.fullmatch(r"[A-Za-z0-9_]{1,80}", name) else "has a number"
            return f"{called}, expect: {_flow(f'value.{quoted(name)} IS NOT NULL')}"
    return "has a value, expect: value IS NOT NULL"


def _step(source: str, findings: Findings) -> Iterator[str]:
    is_struct = findings.format == "json" or findings.format.startswith("registry-")
    columns = "value.*" if is_struct else "key, value, partition, offset, timestamp"
    yield "steps:"
    yield "  # Any SQL over sources and other steps. The columns of a topic are"
    yield f"  # {_COLUMNS}."
    yield f"  {source}_rows:"
    yield "    sql: |"
    yield f"      SELECT {columns}"
    yield f"      FROM {source}"
    if is_struct:
        # A tombstone has none.
        yield "      WHERE value IS NOT NULL"
    yield ""


def _sink(topic: str, source: str, findings: Findings, kind: SinkKind, partitions: int) -> Iterator[str]:
    yield "sinks:"
    if kind == "topic":
        yield "  copy:"
        yield f"    from: {source}_rows"
        yield f"    topic: {_word(f'{topic[: TOPIC_CHARACTERS_MAX - 5]}-rows')}"
        yield f"    partitions: {partitions}  # the topic is made with so many when it is not there"
        fields, _ = fields_of(findings.schema)
        if findings.format == "json":
            yield f"    # key: {_flow(next(iter(fields)))}  # a column, or several; without one the records have no key"
        elif not findings.framed:
            yield "    key: key  # a column; without it the records have no key"
            yield "    value: value"
        yield "    # format: json  # default; or avro, protobuf, registry-avro, registry-protobuf"
        yield "    # delivery: at-least-once  # default: exactly-once"
        return
    yield "  table:"
    yield f"    from: {source}_rows"
    yield f"    table: ./tables/{topic}  # a directory beside this file, or an address such as s3a://..."
    yield "    format: parquet  # or delta, iceberg"
    yield "    # partition-by: [column]  # a directory for each value"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"


def _word(text: str) -> str:
    """A name of a topic as YAML takes it for text."""
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]*", text) and text.lower() not in _YAML_WORDS
    return text if is_plain else f'"{text}"'


_YAML_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")


def _flow(text: str) -> str:
    """Text inside braces."""
    return text if re.fullmatch(r"[A-Za-z][A-Za-z0-9_. ]*", text) else "'" + text.replace("'", "''") + "'"
