"""Reads a pipeline file into the model: `read_pipeline(path)`, or SpecError with every problem and its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidelog.pipelines.delivery.triggers import Trigger
from tidelog.pipelines.spec.document import Document, Section
from tidelog.pipelines.spec.durations import parse_duration_ms
from tidelog.pipelines.spec.graph import check_graph
from tidelog.pipelines.spec.model import Pipeline, Restart, Sink, Source, Step
from tidelog.pipelines.spec.sinks import read_sink
from tidelog.pipelines.spec.sources import read_source
from tidelog.pipelines.spec.steps import read_step

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
RELATION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def read_pipeline(path: Path, environment: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline of a file, judged as far as that is possible without Spark and without a broker."""
    document = Document(path, environment)
    root = document.read("pipeline")
    name = root.word("name", path.stem.replace(".", "-"))
    if not NAME.fullmatch(name):
        root.complain("name", f"the name {name!r} may have letters, digits, - and _ only; give another with `name:`")
    trigger = read_trigger(root, Trigger(kind="available-now"))
    dead_letters = root.word("dead-letters")
    sources: dict[str, Source] = {}
    for source_name, line, section in _relations(root, "sources", "source"):
        source = read_source(section, source_name, line, path.parent, dead_letters)
        if source is not None:
            sources[source_name] = source
    steps: dict[str, Step] = {}
    for step_name, line, section in _relations(root, "steps", "step"):
        step = read_step(section, step_name, line, dead_letters)
        if step is not None:
            steps[step_name] = step
    sinks: dict[str, Sink] = {}
    for sink_name, line, section in root.named_sections("sinks", "sink"):
        if not NAME.fullmatch(sink_name):
            document.complain(line, f"the name {sink_name!r} may have letters, digits, - and _ only")
        sink_trigger = read_trigger(section, trigger)
        sink = read_sink(section, sink_name, line, path.parent, sink_trigger)
        section.close()
        if sink is not None:
            sinks[sink_name] = sink
    for key, what in (("sources", "where rows come from"), ("sinks", "where rows go")):
        if not root.has(key):
            document.complain(1, f"the pipeline needs `{key}:` ({what})")
    pipeline = Pipeline(
        path=path,
        name=name,
        bootstrap=root.word("bootstrap"),
        checkpoint=resolve_checkpoint(path.parent, root.word("checkpoint"), name),
        sources=sources,
        steps=steps,
        sinks=sinks,
        client=root.pairs("client"),
        spark=_read_spark(root),
        restart=_read_restart(root),
    )
    root.close()
    # A part that is wrong is still there: the parts that read it are not wrong as well.
    check_graph(pipeline, document, named=[*root.names_in("sources"), *root.names_in("steps")])
    document.raise_problems(pipeline)
    return pipeline


def resolve_checkpoint(directory: Path, given: str, name: str) -> str:
    if "://" in given:
        return given.rstrip("/")
    return str((directory / (given or f".tidelog/checkpoints/{name}")).absolute())


def _relations(root: Section, key: str, kind: str) -> Iterator[tuple[str, int, Section]]:
    """The entries below `key`, each closed once it was read."""
    for name, line, section in root.named_sections(key, kind):
        if not RELATION_NAME.fullmatch(name):
            advice = "SQL must be able to name it: letters, digits and _ only"
            root.document.complain(line, f"the name {name!r} of a {kind} does not do; {advice}")
        yield name, line, section
        section.close()


def read_trigger(section: Section, default: Trigger) -> Trigger:
    """`available-now`, `once`, an interval such as `10s`, or `{continuous: 1s}`."""
    if section.is_section("trigger"):
        inner = section.section("trigger", "trigger")
        assert inner is not None
        interval = inner.duration_ms("interval", -1)
        continuous = inner.duration_ms("continuous", -1)
        inner.close()
        if (interval < 0) == (continuous < 0):
            section.complain("trigger", "a trigger is `{interval: 10s}` or `{continuous: 1s}`, one of them")
            return default
        return (
            Trigger(kind="interval", interval_ms=interval)
            if interval >= 0
            else Trigger(kind="continuous", interval_ms=continuous)
        )
    word = section.word("trigger")
    if not word:
        return default
    if word in ("available-now", "once"):
        return Trigger(kind="available-now")
    if word == "continuous":
        return Trigger(kind="continuous", interval_ms=1000)
    try:
        return Trigger(kind="interval", interval_ms=parse_duration_ms(word))
    except ValueError:
        section.complain(
            "trigger", f"the trigger {word} is none: use available-now, an interval such as 10s, or continuous"
        )
        return default


def _read_spark(root: Section) -> dict[str, str]:
    given = root.pairs("spark")
    for name in given:
        if name not in ("master", "packages") and not name.startswith("spark."):
            text = f"spark takes `master`, `packages` and settings that begin with `spark.`, not {name}"
            root.complain("spark", text)
    return given


def _read_restart(root: Section) -> Restart:
    section = root.section("restart", "restart")
    if section is None:
        return Restart()
    usual = Restart()
    restart = Restart(
        attempts_max=section.integer("attempts", usual.attempts_max),
        delay_ms=section.duration_ms("delay", usual.delay_ms),
        delay_max_ms=section.duration_ms("delay-max", usual.delay_max_ms),
    )
    section.close()
    return restart
