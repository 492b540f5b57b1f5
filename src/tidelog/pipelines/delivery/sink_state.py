"""What an exactly-once topic sink pins in its checkpoint: its identity, and how it lays rows out, batch by batch
(pure).

A batch that runs again must send every row to the partition and the lane it went to before. A layout therefore counts
from a batch on: a batch that was begun keeps the one it was begun with, and a topic that has grown is followed from
the first batch that no run has begun. A lane is what one task writes under one transactional id: a fixed set of target
partitions (partition modulo lanes), or the rows of one source partition.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidelog.pipelines.errors import PipelineError

FILE = "tidelog/topic-sink.json"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How rows are laid out from batch `from_batch` on."""

    from_batch: int
    partitions: int
    lanes: int
    """1 <= lanes <= partitions."""
    by_source: bool = False
    """Lanes are the partitions of the source; `lanes` then means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEncoding:
    """What the bytes of a key depend on beside its columns, and with them the partition of its rows."""

    format: str = "json"
    schema: str = ""
    """The id of the schema in a registry, or a digest of one that was given."""
    message: str = ""

    def __str__(self) -> str:
        schema = f"schema id {self.schema}" if self.schema.isdigit() else self.schema and f"schema {self.schema[:14]}"
        parts = ", ".join(part for part in (schema, self.message) if part)
        return f"{self.format} ({parts})" if parts else self.format


JSON_KEYS = KeyEncoding()
"""Text and bytes as they are, everything else as JSON; what a state that does not speak of keys was written with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """The pinned part of a sink."""

    sink_id: str
    """Names the consumer group of the batch markers and, with the lane, the transactional ids."""
    topic: str
    partitioner: str
    layouts: tuple[Layout, ...]
    """By rising `from_batch`, the first from 0."""
    key: KeyEncoding = JSON_KEYS

    def layout(self, batch: int) -> Layout:
        return [layout for layout in self.layouts if layout.from_batch <= batch][-1]

    def to_json(self) -> dict[str, Any]:
        return {"version": _VERSION, **asdict(self)}


def new_state(
    topic: str,
    partitioner: str,
    partitions: int,
    lanes: int,
    by_source: bool = False,
    key: KeyEncoding = JSON_KEYS,
) -> SinkState:
    layout = Layout(from_batch=0, partitions=partitions, lanes=min(lanes, partitions), by_source=by_source)
    sink_id = f"tidelog-{uuid.uuid4()}"
    return SinkState(sink_id=sink_id, topic=topic, partitioner=partitioner, layouts=(layout,), key=key)


def parse_state(content: Mapping[str, Any], where: str) -> SinkState:
    """The state in a checkpoint; raises PipelineError when it is not one."""
    if content.get("version") != _VERSION:
        raise PipelineError(f"{where}: written by another version of Tidelog ({content.get('version')!r})")
    try:
        layouts = tuple(Layout(**layout) for layout in content["layouts"])
        state = SinkState(
            sink_id=content["sink_id"],
            topic=content["topic"],
            partitioner=content["partitioner"],
            layouts=layouts,
            key=KeyEncoding(**content.get("key", {})),
        )
    except (KeyError, TypeError) as error:
        raise PipelineError(f"{where} is damaged: {error}") from None
    if not layouts or layouts[0].from_batch != 0:
        raise PipelineError(f"{where} is damaged: no layout for batch 0")
    return state


def follow(
    state: SinkState,
    *,
    topic: str,
    partitioner: str,
    partitions: int,
    lanes: int,
    next_fresh: int,
    by_source: bool = False,
    key: KeyEncoding = JSON_KEYS,
) -> SinkState:
    """The state for a run that starts now; raises PipelineError for a change that the checkpoint cannot follow."""
    if state.topic != topic:
        raise PipelineError(
            f"the checkpoint belongs to a query that writes topic {state.topic}, not {topic}: use another checkpoint"
        )
    if state.partitioner != partitioner:
        raise PipelineError(
            f"the checkpoint was made with partitioner {state.partitioner}, not {partitioner}: keys would move to other"
            " partitions and a batch in doubt could be lost or doubled; keep it, or start with a new checkpoint"
        )
    if state.key != key:
        raise PipelineError(
            f"the checkpoint was made with keys as {state.key}, not {key}: keys would move to other partitions and a"
            " batch in doubt could be lost or doubled; keep it, or start with a new checkpoint"
        )
    last = state.layouts[-1]
    if partitions < last.partitions:
        raise PipelineError(
            f"topic {topic} has {partitions} partitions, the checkpoint knows {last.partitions}: the topic was"
            " deleted and made again; start with a new checkpoint"
        )
    wanted = Layout(from_batch=next_fresh, partitions=partitions, lanes=min(lanes, partitions), by_source=by_source)
    if replace(wanted, from_batch=last.from_batch) == last:
        return state
    # A layout that no batch was begun with need not be remembered.
    begun = tuple(layout for layout in state.layouts if layout.from_batch < next_fresh)
    return replace(state, layouts=(*begun, wanted))
