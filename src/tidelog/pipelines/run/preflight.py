"""What is looked at before Spark is started: the broker, topics, tables and files. Nothing is changed here.

A JVM takes seconds to start; a name that was mistyped is reported before that. What only Spark can see (a table in a
remote file system, the columns of a statement) is left to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidelog.pipelines.errors import PipelineError, Unreachable
from tidelog.pipelines.formats.registry import subject_schemas
from tidelog.pipelines.run.explain import place_of
from tidelog.pipelines.spec.model import (
    FilesSink,
    FilesSource,
    Pipeline,
    Sink,
    Source,
    TableSink,
    TableSource,
    TopicSink,
    TopicSource,
)
from tidelog.pipelines.tables.table_files import (
    check_local_source,
    check_local_target,
    check_writable,
    is_pattern,
    local_path,
)
from tidelog.pipelines.topics.broker import partition_counts


@contextlib.contextmanager
def named(pipeline: Pipeline, line: int, what: str) -> Iterator[None]:
    """Puts the place in the file before what went wrong; a built-in job has no file to point to."""
    try:
        yield
    except PipelineError as error:
        if not line:
            raise
        # The command still has to know which server does not answer.
        cause = error if isinstance(error, Unreachable) else None
        raise PipelineError(f"{place_of(pipeline, line)}: {what}: {error}") from cause


def check_surroundings(pipeline: Pipeline, bootstrap: str, master: str | None, *, sinks: bool = True) -> None:
    """PipelineError for the first thing that a pipeline needs and that is not there."""
    files_are_here = _sees_local_files(pipeline, master)
    for source in pipeline.sources.values():
        with named(pipeline, source.line, f"source {source.name}"):
            if isinstance(source, TopicSource):
                partition_counts(bootstrap, source.topics, pipeline.client)
                _check_schemas(source)
            elif files_are_here:
                _check_source(source)
    for sink in pipeline.sinks.values() if sinks else ():
        with named(pipeline, sink.line, f"sink {sink.name}"):
            if isinstance(sink, TopicSink):
                partition_counts(bootstrap, () if sink.partitions else (sink.topic,), pipeline.client)
            elif files_are_here:
                _check_sink(sink)
    for relation in (*pipeline.sources.values(), *pipeline.steps.values()):
        drops = [rule for rule in relation.rules if rule.otherwise == "drop"]
        if drops:
            with named(pipeline, drops[0].line, f"rule {drops[0].name}"):
                partition_counts(bootstrap, (), pipeline.client)
    place = local_path(pipeline.checkpoint)
    if sinks and files_are_here and place is not None:
        check_writable(place)


def _sees_local_files(pipeline: Pipeline, master: str | None) -> bool:
    """Whether a path without a scheme is one of this machine, for Spark as well."""
    chosen = master or pipeline.spark.get("master") or ""
    elsewhere: Sequence[str] = ("spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name")
    return not chosen.startswith("sc://") and not any(name in pipeline.spark for name in elsewhere)


def _check_schemas(source: TopicSource) -> None:
    for part, name, schema in (("value", source.value, source.schema), ("key", source.key, source.key_schema)):
        if name in ("protobuf", "registry-protobuf") and schema and not Path(schema).is_file():
            raise PipelineError(f"the descriptor file {schema} of its {part}s does not exist")
        if name == "registry-avro" and len(source.topics) == 1:
            subject_schemas(source.registry, f"{source.topics[0]}-{part}")


def _check_source(source: Source) -> None:
    if isinstance(source, TableSource):
        check_local_source(source.location, source.format)
    elif isinstance(source, FilesSource):
        place = local_path(source.location)
        # What a pattern matches may come later.
        if place is not None and not is_pattern(source.location) and not place.exists():
            raise PipelineError(f"{source.location} does not exist")


def _check_sink(sink: Sink) -> None:
    if isinstance(sink, TableSink):
        check_local_target(sink.location, sink.format)
    elif isinstance(sink, FilesSink) and (place := local_path(sink.location)) is not None:
        check_writable(place)
