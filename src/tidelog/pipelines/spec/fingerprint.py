"""What a checkpoint was written for, and whether the pipeline of today can go on from it.

A checkpoint holds the positions in the sources and the state of windows, joins and deduplications. Its fingerprint has
what those depend on, per sink: the streaming sources in their order (positions are kept by it), the statements that
keep state, the column of every watermark, and where the rows go. Everything else (filters, columns, rules, triggers,
limits) may change between two runs, and a source may get more topics: Spark reads those from their beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.pipelines.spec.document import Problem, SpecError
from tidelog.pipelines.spec.graph import upstream
from tidelog.pipelines.spec.model import (
    ConsoleSink,
    DeduplicateStep,
    FilesSource,
    Pipeline,
    PythonStep,
    Sink,
    Source,
    SqlStep,
    TableSource,
    TopicSink,
    TopicSource,
)
from tidelog.pipelines.spec.sql import is_stateful, normalize

VERSION = 1
_TOPICS = "topic "


def fingerprint(pipeline: Pipeline, senders: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The document that is kept in the checkpoint: name of the sink -> what its query rests on.

    `senders` says which sink sends the dead letters of which relation (run/senders.py).
    """
    return {
        "version": VERSION,
        "pipeline": pipeline.name,
        "senders": dict(senders or {}),
        "sinks": {sink.name: _sink_fingerprint(pipeline, sink) for sink in pipeline.sinks.values()},
    }


def _sink_fingerprint(pipeline: Pipeline, sink: Sink) -> dict[str, Any]:
    relations = [pipeline.relation(name) for name in upstream(pipeline, sink.input)]
    return {
        "target": _target(sink),
        "mode": sink.mode,
        "sources": {
            source.name: _position(source)
            for source in relations
            if isinstance(source, TopicSource | TableSource | FilesSource) and source.streaming
        },
        "state": {
            step.name: state
            for step in relations
            if isinstance(step, SqlStep | PythonStep | DeduplicateStep) and (state := _state(pipeline, step))
        },
        "watermarks": {relation.name: relation.watermark.column for relation in relations if relation.watermark},
    }


def _target(sink: Sink) -> str:
    if isinstance(sink, TopicSink):
        return f"topic {sink.topic}"
    if isinstance(sink, ConsoleSink):
        return "console"
    return f"{sink.format} {sink.location}"


def _position(source: Source) -> str:
    if isinstance(source, TopicSource):
        return f"{_TOPICS}{', '.join(sorted(source.topics))}"
    return f"{source.format} {source.location}"


def _state(pipeline: Pipeline, step: SqlStep | PythonStep | DeduplicateStep) -> str:
    """What the state of a step depends on; empty when it keeps none."""
    streams = sum(1 for name in step.inputs if pipeline.is_streaming(name))
    if not streams:
        return ""
    if isinstance(step, DeduplicateStep):
        return f"deduplicate {', '.join(step.columns)}"
    if isinstance(step, PythonStep):
        return f"python {step.function}"
    return normalize(step.sql) if is_stateful(step.sql, streams=streams) else ""


def check_checkpoint(pipeline: Pipeline, kept: dict[str, Any]) -> list[str]:
    """SpecError when the checkpoint cannot follow the pipeline; else notes about what changes without harm."""
    if kept.get("version") != VERSION:
        found = kept.get("version")
        reason = f"its checkpoint {pipeline.checkpoint} has version {found} of the format; {_advice()}"
        raise SpecError([Problem(str(pipeline.path), 0, reason)])
    problems: list[Problem] = []
    notes: list[str] = []
    before: dict[str, Any] = kept.get("sinks", {})
    for sink in pipeline.sinks.values():
        if sink.name not in before:
            notes.append(f"sink {sink.name} is new: it starts where its sources start")
        else:
            problems += _differences(pipeline, sink, before[sink.name])
    notes += [
        f"sink {name} is gone: its checkpoint stays and is not used" for name in before if name not in pipeline.sinks
    ]
    if problems:
        raise SpecError(problems)
    return notes


def _differences(pipeline: Pipeline, sink: Sink, before: dict[str, Any]) -> list[Problem]:
    now = _sink_fingerprint(pipeline, sink)
    found: list[tuple[int, str]] = []
    for key, what in (("target", "rows went to"), ("mode", "rows were written in mode")):
        if now[key] != before.get(key):
            found.append((sink.line, f"until now its {what} {before.get(key)}, now {now[key]}"))
    for name in {**before.get("sources", {}), **now["sources"]}:
        old, new = before.get("sources", {}).get(name), now["sources"].get(name)
        if old != new and not _has_more_topics(old, new):
            line = pipeline.sources[name].line if name in pipeline.sources else sink.line
            found.append((line, f"source {name} was {old or 'not read'} and is {new or 'not read'} now"))
    orders = [list(document.get("sources", {})) for document in (before, now)]
    if orders[0] != orders[1] and set(orders[0]) == set(orders[1]):
        found.append(
            (sink.line, f"its sources were read in the order {', '.join(orders[0])}, now {', '.join(orders[1])}")
        )
    for name in {**before.get("state", {}), **now["state"]}:
        old, new = before.get("state", {}).get(name), now["state"].get(name)
        if old != new:
            found.append((_step_line(pipeline, sink, name), _state_change(name, old, new)))
    for name in {**before.get("watermarks", {}), **now["watermarks"]}:
        old, new = before.get("watermarks", {}).get(name), now["watermarks"].get(name)
        if old != new:
            line = pipeline.relation(name).line if name in {**pipeline.sources, **pipeline.steps} else sink.line
            found.append((line, f"the watermark of {name} was on {old or 'nothing'} and is on {new or 'nothing'} now"))
    path = str(pipeline.path)
    return [
        Problem(path, line, f"sink {sink.name} cannot go on from its checkpoint: {text}; {_advice()}")
        for line, text in found
    ]


def _has_more_topics(old: str | None, new: str | None) -> bool:
    topics = [set(text.removeprefix(_TOPICS).split(", ")) for text in (old, new) if text and text.startswith(_TOPICS)]
    return len(topics) == 2 and topics[0] <= topics[1]


def _step_line(pipeline: Pipeline, sink: Sink, name: str) -> int:
    return pipeline.steps[name].line if name in pipeline.steps else sink.line


def _state_change(name: str, old: str | None, new: str | None) -> str:
    if old is None:
        return f"step {name} keeps state and is new"
    if new is None:
        return f"step {name}, whose state is in it, is gone or keeps none any more"
    return f"step {name} keeps state, and what it computes was changed (it was: {_shorten(old)})"


def _shorten(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


def _advice() -> str:
    return "take the change back, or name a new `checkpoint:` (it starts from the sources' `start:` again)"
