"""Which sink sends the dead letters of a relation that several sinks read.

A record that cannot be parsed, or a row that a rule drops, must leave once: one sink sends it, the others only leave
it out. The first sink of the file is chosen, and stays it when the file is put in another order. A sink that takes over
from one that is gone sends what it reads from there on, so the one that is gone must have come at least as far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.pipelines.delivery.checkpoint import Positions
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.spec.graph import upstream
from tidelog.pipelines.spec.model import Pipeline, TopicSource


def choose_senders(
    pipeline: Pipeline, kept: Mapping[str, str], position_of: Callable[[str], Positions]
) -> tuple[dict[str, str], list[str]]:
    """Relation -> sink, and what there is to say about changes.

    `kept` is what the last run had chosen, `position_of` how far the query of a sink has come. PipelineError when bad
    records would go nowhere.
    """
    chosen: dict[str, str] = {}
    notes: list[str] = []
    for name in dict.fromkeys(part for sink in pipeline.sinks.values() for part in upstream(pipeline, sink.input)):
        usual, before = usual_sender(pipeline, name), kept.get(name)
        chosen[name] = usual
        if before is None or before == usual:
            continue
        if before in pipeline.sinks and name in upstream(pipeline, pipeline.sinks[before].input):
            chosen[name] = before
        elif _may_send(pipeline, name):
            _check_position(pipeline, name, before, usual, position_of)
            notes.append(
                f"sink {usual} sends the dead letters of {name} from now on: {before} does not read it any more"
            )
    return chosen, notes


def usual_sender(pipeline: Pipeline, name: str) -> str:
    """The first sink that reads a relation, as a stream if the relation is one."""
    readers = [sink for sink in pipeline.sinks.values() if name in upstream(pipeline, sink.input)]
    streams = pipeline.is_streaming(name)
    return next((sink.name for sink in readers if pipeline.is_streaming(sink.input) == streams), readers[0].name)


def _may_send(pipeline: Pipeline, name: str) -> bool:
    relation = pipeline.relation(name)
    drops = any(rule.otherwise == "drop" for rule in relation.rules)
    return drops or (isinstance(relation, TopicSource) and relation.on_invalid == "dead-letters")


def _check_position(
    pipeline: Pipeline, name: str, before: str, now: str, position_of: Callable[[str], Positions]
) -> None:
    parts = [pipeline.relation(part) for part in upstream(pipeline, name)]
    topics = [topic for part in parts if isinstance(part, TopicSource) and part.streaming for topic in part.topics]
    reached = position_of(before)
    for topic, partitions in position_of(now).items():
        ahead = [index for index, offset in partitions.items() if offset > reached.get(topic, {}).get(index, 0)]
        if topic in topics and ahead:
            raise PipelineError(
                f"{pipeline.path}: sink {before}, which sent the dead letters of {name}, is gone or does not read it "
                f"any more, and had not come as far in topic {topic} as sink {now}: bad records in between would "
                "go nowhere; take the change back until it has caught up, or name a new `checkpoint:`"
            )
