"""What is wrong inside the parts of a pipeline: SQL, types and Python modules, each with its line in the file.

`read_pipeline` judges the shape of a file; this looks into what the file quotes. Neither Spark nor a broker is asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tidelog.pipelines.spec.document import Problem
from tidelog.pipelines.spec.model import (
    FilesSource,
    Pipeline,
    PythonStep,
    Relation,
    SqlStep,
    TableSink,
    TopicSink,
    TopicSource,
)
from tidelog.pipelines.spec.modules import find_missing
from tidelog.pipelines.spec.sql_syntax import Mistake, can_parse, find_mistake
from tidelog.pipelines.spec.sql_types import find_unknown_cast, find_unknown_type


def find_problems(pipeline: Pipeline) -> list[Problem]:
    """All of them, by line; none where it is not certain that Spark would say the same."""
    found = [
        Problem(str(pipeline.path), line, text)
        for part in (_relations(pipeline), _sinks(pipeline))
        for line, text in part
    ]
    return sorted(found, key=lambda problem: problem.line)


def can_judge_sql() -> bool:
    """Whether statements are looked into as well: their parser comes with the extra `spark`."""
    return can_parse()


def _relations(pipeline: Pipeline) -> Iterator[tuple[int, str]]:
    for relation in (*pipeline.sources.values(), *pipeline.steps.values()):
        kind = "source" if relation.name in pipeline.sources else "step"
        for line, text in _inside(pipeline, relation):
            yield line, f"{kind} {relation.name}: {text}"
        for rule in relation.rules:
            for mistake in _mistakes(f"SELECT * FROM t WHERE {rule.expect}"):
                yield rule.line + mistake.line, f"rule {rule.name} of {relation.name}: {mistake.text}"


def _inside(pipeline: Pipeline, relation: Relation) -> Iterator[tuple[int, str]]:
    match relation:
        case TopicSource():
            yield from _schema(relation.value, relation.schema, relation.schema_line)
            yield from _schema(relation.key, relation.key_schema, relation.key_schema_line)
        case FilesSource():
            yield from _schema("csv", relation.schema, relation.schema_line)
        case SqlStep():
            for mistake in _mistakes(relation.sql):
                yield relation.sql_line + mistake.line, mistake.text
        case PythonStep():
            missing = find_missing(relation.function, pipeline.directory)
            if missing:
                yield relation.function_line, missing


def _sinks(pipeline: Pipeline) -> Iterator[tuple[int, str]]:
    for sink in pipeline.sinks.values():
        if isinstance(sink, TableSink) and sink.delete_when:
            for mistake in _mistakes(f"SELECT * FROM t WHERE {sink.delete_when}"):
                line = sink.lines.get("delete-when", sink.line) + mistake.line
                yield line, f"delete-when of sink {sink.name}: {mistake.text}"
        if isinstance(sink, TopicSink):
            for name, schema, key in (
                (sink.format, sink.schema, "schema"),
                (sink.key_format, sink.key_schema, "key-schema"),
            ):
                for line, text in _schema(name, schema, sink.lines.get(key, sink.line)):
                    yield line, f"sink {sink.name}: {text}"


def _schema(format_name: str, schema: str, line: int) -> Iterator[tuple[int, str]]:
    if not schema:
        return
    if format_name in ("json", "csv"):
        mistake = find_unknown_type(schema)
        if mistake is not None:
            yield line + mistake.line, mistake.text
    elif format_name in ("avro", "registry-avro"):
        try:
            json.loads(schema)
        except ValueError as error:
            at = getattr(error, "lineno", 1) - 1
            yield line + at, f"the Avro schema is not JSON: {getattr(error, 'msg', error)}"


def _mistakes(sql: str) -> Iterator[Mistake]:
    mistake = find_unknown_cast(sql)
    if mistake is None and can_parse():
        mistake = find_mistake(sql)
    if mistake is not None:
        yield mistake
