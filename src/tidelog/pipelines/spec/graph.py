"""How the parts of a pipeline hang together: every name must exist, nothing may go round in a circle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.pipelines.spec.document import Document
from tidelog.pipelines.spec.model import DeduplicateStep, Pipeline, SqlStep, TopicSink, TopicSource
from tidelog.pipelines.spec.sql import find_references
from tidelog.pipelines.spec.suggestions import did_you_mean


def check_graph(pipeline: Pipeline, document: Document, named: Sequence[str]) -> None:
    """Reports missing and doubled names, cycles, parts that are not used, and state without an end.

    `named` are all sources and steps of the file, those too that could not be read.
    """
    _check_names(pipeline, document)
    before = len(document.problems)
    _check_references(pipeline, document, named)
    _check_cycles(pipeline, document)
    if len(document.problems) == before and set(named) == {*pipeline.sources, *pipeline.steps}:
        _check_unused(pipeline, document)
        _check_deduplication(pipeline, document)
        _check_loops(pipeline, document)


def _check_names(pipeline: Pipeline, document: Document) -> None:
    seen: dict[str, int] = {}
    for relation in [*pipeline.sources.values(), *pipeline.steps.values()]:
        first = seen.setdefault(relation.name.lower(), relation.line)
        if first != relation.line:
            document.complain(
                relation.line, f"{relation.name} is already the name of a source or step (line {first}); rename one"
            )


def _check_references(pipeline: Pipeline, document: Document, known: Sequence[str]) -> None:
    by_folded = {name.lower(): name for name in known}

    def complain(line: int, user: str, name: str) -> None:
        near = did_you_mean(name, known)
        there = f"; there is {', '.join(known)}" if known and not near else ""
        document.complain(line, f"{user} reads {name}, which is no source and no step{near}{there}")

    for step in pipeline.steps.values():
        lines = {}
        if isinstance(step, SqlStep):
            lines = {found.name: step.sql_line + found.line for found in find_references(step.sql)}
        for name in step.inputs:
            if name not in known:
                exact = by_folded.get(name.lower())
                line = lines.get(name, step.line)
                if exact:
                    document.complain(line, f"step {step.name} reads {name}; write it as it is named: {exact}")
                else:
                    complain(line, f"step {step.name}", name)
    for sink in pipeline.sinks.values():
        if sink.input and sink.input not in known:
            complain(sink.line, f"sink {sink.name}", sink.input)


def _check_cycles(pipeline: Pipeline, document: Document) -> None:
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            circle = path[path.index(name) :]
            done.update(circle)
            shown = " -> ".join([*circle, name])
            document.complain(
                pipeline.steps[name].line, f"the steps go round in a circle: {shown}; one must read something else"
            )
            return
        if name in done or name not in pipeline.steps:
            return
        for part in pipeline.steps[name].inputs:
            visit(part, [*path, name])
        done.add(name)

    for name in pipeline.steps:
        visit(name, [])


def _check_unused(pipeline: Pipeline, document: Document) -> None:
    used: set[str] = set()
    for sink in pipeline.sinks.values():
        used.update(upstream(pipeline, sink.input))
    for relation in [*pipeline.sources.values(), *pipeline.steps.values()]:
        if relation.name not in used:
            kind = "source" if relation.name in pipeline.sources else "step"
            document.complain(relation.line, f"{kind} {relation.name} reaches no sink; use it or leave it out")


def _check_deduplication(pipeline: Pipeline, document: Document) -> None:
    for step in pipeline.steps.values():
        if not isinstance(step, DeduplicateStep) or not pipeline.is_streaming(step.name):
            continue
        if not any(pipeline.relation(name).watermark for name in upstream(pipeline, step.inputs[0])):
            document.complain(
                step.line, f"step {step.name} would remember every key for ever; give {step.inputs[0]} a `watermark:`"
            )


def _check_loops(pipeline: Pipeline, document: Document) -> None:
    """What a stream writes must not be what it reads: its own records would come back to it for ever."""
    reported: set[str] = set()
    for sink in pipeline.sinks.values():
        parts = [pipeline.relation(name) for name in upstream(pipeline, sink.input)]
        read = {topic for part in parts if isinstance(part, TopicSource) and part.streaming for topic in part.topics}
        if isinstance(sink, TopicSink) and sink.topic in read:
            line = sink.lines.get("topic", sink.line)
            document.complain(line, f"sink {sink.name} writes topic {sink.topic}, which it reads; use another topic")
        for part in parts:
            if part.dead_letters in read - reported:
                reported.add(part.dead_letters)
                text = f"the dead letters of {part.name} go to {part.dead_letters}, which sink {sink.name} reads"
                document.complain(part.line, f"{text}; use another topic")


def upstream(pipeline: Pipeline, name: str) -> Iterator[str]:
    """The relation `name` and all that it is made from, inputs first, each once."""
    seen: set[str] = set()

    def visit(current: str) -> Iterator[str]:
        if current in seen:
            return
        seen.add(current)
        if current in pipeline.steps:
            for part in pipeline.steps[current].inputs:
                yield from visit(part)
        yield current

    yield from visit(name)
