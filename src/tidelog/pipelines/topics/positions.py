"""Where a read starts and ends, in the words of Spark's Kafka connector (pure: no broker is asked).

The connector has two families of options: offsets per partition, where -2 is earliest and -1 latest, and timestamps.
A time that no record has reached yet means the end of the partition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tidelog.pipelines.errors import PipelineError

Position = str | int | datetime | Mapping[int, int] | Mapping[str, Mapping[int, int]]
"""Where to start or end: "earliest", "latest", a time, an offset per partition, or that per topic.

A time is a datetime (naive means UTC), an ISO 8601 text, or milliseconds since 1970."""

_EARLIEST, _LATEST = -2, -1


def check_start(text: str) -> None:
    """PipelineError for a text that is no start."""
    if text not in ("earliest", "latest"):
        _millis(text, "start")


def start_options(position: Position, topics: Sequence[str], partitions: Mapping[str, int]) -> dict[str, str]:
    """The connector's options for a start; `partitions` counts those of each topic."""
    if position == "earliest" or position == "latest":
        return {"startingOffsets": str(position)}
    if isinstance(position, Mapping):
        return {"startingOffsets": _offsets(position, topics, partitions, missing=_EARLIEST, side="start")}
    return {"startingTimestamp": str(_millis(position, "start")), "startingOffsetsByTimestampStrategy": "latest"}


def end_options(position: Position, topics: Sequence[str], partitions: Mapping[str, int]) -> dict[str, str]:
    """The connector's options for an end, exclusive; batch reads only."""
    if position == "earliest":
        raise PipelineError("end='earliest' would read nothing: use 'latest', a time or offsets")
    if position == "latest":
        return {"endingOffsets": "latest"}
    if isinstance(position, Mapping):
        return {"endingOffsets": _offsets(position, topics, partitions, missing=_LATEST, side="end")}
    return {"endingTimestamp": str(_millis(position, "end"))}


def _offsets(
    position: Mapping[int, int] | Mapping[str, Mapping[int, int]],
    topics: Sequence[str],
    partitions: Mapping[str, int],
    *,
    missing: int,
    side: str,
) -> str:
    """The connector wants every partition named: those that are not get earliest (start) or latest (end)."""
    per_topic = _per_topic(position, topics, side)
    wanted: dict[str, dict[str, int]] = {}
    for topic in topics:
        given = per_topic.get(topic, {})
        for partition, offset in given.items():
            if not 0 <= partition < partitions[topic]:
                raise PipelineError(f"{side}: {topic} has no partition {partition}, only 0 to {partitions[topic] - 1}")
            if offset < 0:
                raise PipelineError(f"{side}: offset {offset} of {topic}-{partition} is negative")
        wanted[topic] = {str(index): given.get(index, missing) for index in range(partitions[topic])}
    return json.dumps(wanted)


def _per_topic(
    position: Mapping[int, int] | Mapping[str, Mapping[int, int]], topics: Sequence[str], side: str
) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for name, inner in position.items():
        if isinstance(inner, Mapping):
            found[str(name)] = {int(partition): int(offset) for partition, offset in inner.items()}
        elif len(topics) == 1:
            found.setdefault(topics[0], {})[int(name)] = int(inner)
        else:
            shape = "{topic: {partition: offset}}"
            raise PipelineError(f"{side}: with several topics offsets are given per topic, as {shape}")
    strangers = sorted(set(found) - set(topics))
    if strangers:
        raise PipelineError(f"{side}: {', '.join(strangers)} is not among the topics read ({', '.join(topics)})")
    return found


def _millis(position: str | int | datetime, side: str) -> int:
    if isinstance(position, bool) or not isinstance(position, str | int | datetime):
        raise PipelineError(f"{side}={position!r}: use 'earliest', 'latest', a time or offsets per partition")
    if isinstance(position, int):
        return position
    if isinstance(position, str):
        # Eight digits are a date.
        if position.isascii() and position.isdigit() and len(position) > 8:
            return int(position)
        try:
            position = datetime.fromisoformat(position)
        except ValueError:
            raise PipelineError(f"{side}={position!r}: neither 'earliest', 'latest' nor an ISO 8601 time") from None
    if position.tzinfo is None:
        position = position.replace(tzinfo=UTC)
    return int(position.timestamp() * 1000)
