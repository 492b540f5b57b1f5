"""What a pipeline file says, checked and typed: sources, steps, sinks and how they are run. Nothing here changes.

A source or a step is a relation that SQL can name; a sink takes one relation out. Every part keeps the line it was
written on, so that whatever goes wrong later can still name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tidelog.pipelines.delivery.triggers import Trigger

Otherwise = Literal["warn", "drop", "fail"]
OutputMode = Literal["append", "update", "complete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """How late a row of this relation may be: `column` minus `delay_ms` is what state is kept for."""

    column: str
    delay_ms: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A predicate that rows of a relation should meet. NULL counts as not met."""

    name: str
    expect: str
    otherwise: Otherwise
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What SQL can name."""

    name: str
    line: int
    watermark: Watermark | None = None
    rules: tuple[Rule, ...] = ()
    dead_letters: str = ""
    """Topic for records that cannot be parsed and rows that a `drop` rule turned away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource(Relation):
    topics: tuple[str, ...]
    value: str = "json"
    """How the bytes of a value become columns: json, text, bytes, csv, avro, protobuf, registry-avro or
    registry-protobuf."""
    schema: str = ""
    """DDL, an Avro schema, or the path of a Protobuf descriptor, as the format needs it."""
    schema_line: int = 0
    message: str = ""
    key: str = "text"
    """How the bytes of a key become columns: the same formats."""
    key_schema: str = ""
    key_schema_line: int = 0
    key_message: str = ""
    registry: str = ""
    start: str | Mapping[int, int] = "earliest"
    """earliest, latest, a time, or the offset of each partition; only the first run looks at it."""
    streaming: bool = True
    on_invalid: Literal["dead-letters", "stop"] = "dead-letters"
    on_data_loss: Literal["stop", "continue"] = "stop"
    records_per_batch_max: int = 0
    """0: no limit."""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource(Relation):
    location: str
    format: str
    streaming: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSource(Relation):
    location: str
    format: str
    schema: str = ""
    schema_line: int = 0
    streaming: bool = True
    options: Mapping[str, str] = field(default_factory=dict)


Source = TopicSource | TableSource | FilesSource


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStep(Relation):
    sql: str
    sql_line: int
    """The line of the file that the first line of `sql` is on."""
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonStep(Relation):
    function: str
    """`module:function`; it gets the inputs as DataFrames, in order, and returns one."""
    function_line: int
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicateStep(Relation):
    """The first row of each key; a key is remembered for as long as the watermark of the input says."""

    columns: tuple[str, ...]
    inputs: tuple[str, ...]


Step = SqlStep | PythonStep | DeduplicateStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What all sinks have."""

    name: str
    line: int
    input: str
    mode: OutputMode = "append"
    trigger: Trigger
    options: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of each key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink(Output):
    topic: str
    key: tuple[str, ...] = ()
    """A column, several as one object, or none for records without a key."""
    value: tuple[str, ...] = ()
    """A column, several as one object, or none for the whole row."""
    format: str = "json"
    """What objects are written as: json, avro, protobuf, registry-avro or registry-protobuf."""
    schema: str = ""
    """An Avro schema, or the path of a Protobuf descriptor, as the format needs it."""
    message: str = ""
    key_format: str = "json"
    key_schema: str = ""
    key_message: str = ""
    registry: str = ""
    headers: str = ""
    timestamp: str = ""
    order_by: tuple[str, ...] = ()
    partitioner: str = "murmur2"
    partitions: int = 0
    """With how many partitions the topic is made when it is not there; 0: it must be there."""
    delivery: Literal["exactly-once", "at-least-once"] = "exactly-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink(Output):
    location: str
    format: str
    write: Literal["append", "upsert"] = "append"
    key: tuple[str, ...] = ()
    delete_when: str = ""
    order_by: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSink(Output):
    location: str
    format: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSink(Output):
    rows_max: int = 20


Sink = TopicSink | TableSink | FilesSink | ConsoleSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """How a failed query is taken up again: a delay that doubles up to a limit, so many times in a row."""

    attempts_max: int = 10
    delay_ms: int = 1000
    delay_max_ms: int = 60_000

    def delay_before(self, attempt: int) -> int:
        """Milliseconds to wait before restart number `attempt`, counted from 1."""
        return min(self.delay_ms << min(attempt - 1, 30), self.delay_max_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    path: Path
    name: str
    bootstrap: str
    """Empty: what the command line or the environment says."""
    checkpoint: str
    sources: Mapping[str, Source]
    steps: Mapping[str, Step]
    sinks: Mapping[str, Sink]
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of Kafka clients, such as `security.protocol`."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of the session: `master`, `packages` (Maven coordinates) and any `spark.*`."""
    restart: Restart = Restart()

    @property
    def directory(self) -> Path:
        return self.path.parent

    def relation(self, name: str) -> Source | Step:
        return self.sources[name] if name in self.sources else self.steps[name]

    def is_streaming(self, name: str) -> bool:
        """Whether rows keep coming out of the relation `name`."""
        relation = self.relation(name)
        if isinstance(relation, TopicSource | TableSource | FilesSource):
            return relation.streaming
        return any(self.is_streaming(part) for part in relation.inputs)
