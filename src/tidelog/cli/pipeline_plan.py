"""`tidelog pipeline plan`: the graph of a pipeline with the schema of every part, as Spark sees it; nothing is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidelog.pipelines.spec.model import Pipeline, Relation


def make_plan(pipeline: Pipeline, bootstrap: str, master: str | None) -> dict[str, Any]:
    """A document with relations in the order in which they are computed, and sinks."""
    from tidelog.pipelines.run.frames import FrameBuilder
    from tidelog.pipelines.run.preflight import check_surroundings
    from tidelog.pipelines.run.runner import describe_target, open_session
    from tidelog.pipelines.run.sink_columns import check_columns
    from tidelog.pipelines.spec.fingerprint import fingerprint
    from tidelog.pipelines.spec.graph import upstream

    check_surroundings(pipeline, bootstrap, master, sinks=False)
    spark = open_session(pipeline, master)
    try:
        builder = FrameBuilder(spark, pipeline, bootstrap)
        frames: dict[str, Any] = {}
        for sink in pipeline.sinks.values():
            for name in upstream(pipeline, sink.input):
                if name not in frames:
                    frames |= builder.build_relations(name)
            check_columns(pipeline, sink, frames[sink.input])
        schemas = {
            name: [
                {"name": field.name, "type": field.dataType.simpleString(), "nullable": field.nullable}
                for field in frame.schema.fields
            ]
            for name, frame in frames.items()
        }
        streaming = {name: frame.isStreaming for name, frame in frames.items()}
    finally:
        spark.stop()
    state = fingerprint(pipeline)["sinks"]
    stateful = {step for sink in state.values() for step in sink["state"]}
    return {
        "pipeline": pipeline.name,
        "file": str(pipeline.path),
        "bootstrap": bootstrap,
        "checkpoint": pipeline.checkpoint,
        "relations": [
            {
                "name": name,
                "kind": _describe_kind(pipeline, name),
                "line": pipeline.relation(name).line,
                "reads": list(getattr(pipeline.relation(name), "inputs", ())),
                "streaming": streaming[name],
                "stateful": name in stateful,
                "rules": [
                    f"{rule.name}: {rule.expect} (else {rule.otherwise})" for rule in pipeline.relation(name).rules
                ],
                "watermark": _describe_watermark(pipeline.relation(name)),
                "columns": schemas[name],
            }
            for name in frames
        ],
        "sinks": [
            {
                "name": sink.name,
                "line": sink.line,
                "reads": sink.input,
                "target": describe_target(sink),
                "mode": sink.mode,
                "trigger": _describe_trigger(sink.trigger),
                "streaming": streaming[sink.input],
            }
            for sink in pipeline.sinks.values()
        ],
    }


def _describe_kind(pipeline: Pipeline, name: str) -> str:
    from tidelog.pipelines.spec.model import DeduplicateStep, FilesSource, PythonStep, TableSource, TopicSource

    match pipeline.relation(name):
        case TopicSource(topics=topics, value=value, key=key):
            keys = "" if key == "text" else f", {key} keys"
            return f"topic {', '.join(topics)} ({value}{keys})"
        case TableSource(location=location, format=format_name):
            return f"{format_name} table {location}"
        case FilesSource(location=location, format=format_name):
            return f"{format_name} files {location}"
        case PythonStep(function=function):
            return f"python {function}"
        case DeduplicateStep(columns=columns):
            return f"first of each {', '.join(columns)}"
        case _:
            return "sql"


def _describe_watermark(relation: Relation) -> str:
    from tidelog.pipelines.spec.durations import format_duration

    watermark = relation.watermark
    return f"{watermark.column}, {format_duration(watermark.delay_ms)}" if watermark else ""


def _describe_trigger(trigger: Any) -> str:
    from tidelog.pipelines.spec.durations import format_duration

    if trigger.kind == "available-now":
        return "available-now"
    return f"{'every' if trigger.kind == 'interval' else 'continuous,'} {format_duration(trigger.interval_ms)}"


def print_plan(plan: dict[str, Any]) -> None:
    """The graph from each sink down to its sources, then the columns of every part."""
    relations = {relation["name"]: relation for relation in plan["relations"]}
    print(f"pipeline {plan['pipeline']}  ({plan['file']})")
    print(f"checkpoint {plan['checkpoint']}")
    print(f"broker {plan['bootstrap']}")
    for sink in plan["sinks"]:
        how = sink["trigger"] if sink["streaming"] else "one pass"
        print(f"\nsink {sink['name']} -> {sink['target']}  ({sink['mode']}, {how})")
        for line in _tree(relations, sink["reads"], ""):
            print(line)
    for relation in plan["relations"]:
        print(f"\n{relation['name']}  ({relation['kind']})")
        for rule in relation["rules"]:
            print(f"  rule {rule}")
        if relation["watermark"]:
            print(f"  watermark {relation['watermark']}")
        width = max((len(column["name"]) for column in relation["columns"]), default=0)
        for column in relation["columns"]:
            print(f"  {column['name']:<{width}}  {column['type']}{'' if column['nullable'] else ' not null'}")


def _tree(relations: dict[str, Any], name: str, indent: str, last: bool = True) -> list[str]:
    relation = relations[name]
    traits = [relation["kind"]]
    traits += ["stream" if relation["streaming"] else "snapshot"]
    traits += ["keeps state"] if relation["stateful"] else []
    lines = [f"{indent}{'└─ ' if last else '├─ '}{name}  ({', '.join(traits)})"]
    below = indent + ("   " if last else "│  ")
    reads = relation["reads"]
    for number, part in enumerate(reads):
        lines += _tree(relations, part, below, number == len(reads) - 1)
    return lines
