"""`replay`: the rows of an archive back into a topic, in the order they had, exactly once.

Rows of one partition keep their order, and with it the rows of one key: they are written by offset. A limit of rows per
second splits the archive into slices by offset, each a batch write of its own that waits for its time. Where a replay
was interrupted the next one goes on: what it was about to do is pinned in its checkpoint before the first row.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.delivery.checkpoint import Files, LocalFiles, files_in
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.jobs.archive import own_directory
from tidelog.pipelines.tables.table_files import (
    check_columns,
    check_writable,
    local_path,
    local_topics,
    refuse_missing,
    table_format,
)
from tidelog.pipelines.topics.broker import partition_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
ADVICE = "; a pipeline file can write any table to a topic"
STATE = "replay.json"
SLICE_SECONDS = 2.0
"""A limited replay writes so much at once; within a slice it is as fast as it can be."""

SLICES_MAX = 100_000
Bounds = dict[str, list[int]]
"""`topic/partition` -> first offset, last offset, rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What is replayed, where to, and how fast."""

    path: str
    topic: str
    source_topics: tuple[str, ...] = ()
    """Empty: all that are in the archive."""
    from_ms: int | None = None
    until_ms: int | None = None
    """The timestamps of the records: from (inclusive) until (exclusive)."""
    rate: int = 0
    """Rows per second; 0: no limit."""
    keep_partitions: bool = False
    checkpoint: str = ""
    client: Mapping[str, str] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """What must be the same for a replay to go on where another was interrupted."""
        return {
            "path": self.path,
            "topic": self.topic,
            "source_topics": list(self.source_topics),
            "from_ms": self.from_ms,
            "until_ms": self.until_ms,
            "keep_partitions": self.keep_partitions,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    rows: int
    resumed: bool
    complete: bool


def check_replay(request: Replay, *, bootstrap: str) -> None:
    """PipelineError for what can be found without Spark."""
    if request.from_ms is not None and request.until_ms is not None and request.from_ms >= request.until_ms:
        raise PipelineError("no record is in that range of time: it ends before it begins")
    check_columns(request.path, COLUMNS, ADVICE)
    known = local_topics(request.path)
    absent = [topic for topic in request.source_topics if known and topic not in known]
    if absent:
        raise PipelineError(f"{request.path} has no records of topic {', '.join(absent)}; it has {', '.join(known)}")
    partition_counts(bootstrap, [request.topic], request.client)
    place = local_path(_home(request))
    if place is not None:
        check_writable(place)
        _refuse_other(LocalFiles(str(place)).read_json(STATE), request)


def _home(request: Replay) -> str:
    return request.checkpoint or own_directory(request.path, f"replay/{request.topic}")


def replay(
    spark: SparkSession,
    request: Replay,
    *,
    bootstrap: str,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    stop: threading.Event | None = None,
) -> Replayed:
    """Writes the rows; `progress` gets rows done and rows in all after every slice."""
    ended = stop or threading.Event()
    frame = _select(spark, request)
    home = _home(request)
    files = files_in(spark, home)
    state, resumed = _pin(files, frame, request)
    bounds: Bounds = state["bounds"]
    total = sum(rows for _, _, rows in bounds.values())
    slices: int = state["slices"]
    sliced = _slice(frame, bounds, slices)
    if slices > 1:
        sliced = sliced.persist()
    done = round(total * state["written"] / slices) if slices else 0
    began, began_with = time.monotonic(), done
    try:
        for number in range(state["written"], slices):
            if request.rate:
                due = began + (done - began_with) / request.rate
                ended.wait(max(0.0, due - time.monotonic()))
            if ended.is_set():
                return Replayed(rows=done, resumed=resumed, complete=False)
            done += _write(sliced, number, request, bootstrap, f"{home}/run-{state['run']}/{number}")
            state["written"] = number + 1
            files.write(STATE, json.dumps(state))
            progress(min(done, total), total)
    finally:
        if slices > 1:
            sliced.unpersist()
    state["complete"] = True
    files.write(STATE, json.dumps(state))
    return Replayed(rows=total, resumed=resumed, complete=True)


def _select(spark: SparkSession, request: Replay) -> DataFrame:
    from pyspark.sql import functions

    from tidelog.pipelines.tables.table_sink import read_table

    frame = read_table(spark, request.path, format=table_format(spark, request.path))
    refuse_missing(request.path, COLUMNS, frame.columns, ADVICE)
    frame = frame.select(*COLUMNS)
    if request.source_topics:
        frame = frame.where(functions.col("topic").isin(*request.source_topics))
    if request.from_ms is not None:
        frame = frame.where(functions.unix_millis("timestamp") >= request.from_ms)
    if request.until_ms is not None:
        frame = frame.where(functions.unix_millis("timestamp") < request.until_ms)
    return frame


def _refuse_other(kept: Mapping[str, Any] | None, request: Replay) -> None:
    if kept is not None and not kept["complete"] and kept["identity"] != request.identity():
        raise PipelineError(
            f"a replay of {kept['identity']['path']} to {kept['identity']['topic']} with other arguments was "
            "interrupted; repeat it as it was, or give this one a --checkpoint of its own"
        )


def _pin(files: Files, frame: DataFrame, request: Replay) -> tuple[dict[str, Any], bool]:
    """What this run does: the rest of an interrupted one, or all that is in the table now."""
    kept = files.read_json(STATE)
    _refuse_other(kept, request)
    if kept is not None and not kept["complete"]:
        return kept, True
    figures = frame.groupBy("topic", "partition").agg({"offset": "min", "*": "count"}).collect()
    lasts = {(row[0], row[1]): row[2] for row in frame.groupBy("topic", "partition").agg({"offset": "max"}).collect()}
    bounds: Bounds = {}
    for row in figures:
        named = row.asDict()
        place = f"{named['topic']}/{named['partition']}"
        last = lasts[(named["topic"], named["partition"])]
        bounds[place] = [named["min(offset)"], last, named["count(1)"]]
    total = sum(rows for _, _, rows in bounds.values())
    slices = math.ceil(total / max(1.0, request.rate * SLICE_SECONDS)) if request.rate else min(total, 1)
    if slices > SLICES_MAX:
        raise PipelineError(
            f"{total:,} rows at {request.rate:,}/s would take too long; choose a range or a higher rate"
        )
    run = kept["run"] + 1 if kept is not None else 1
    state = {
        "identity": request.identity(),
        "run": run,
        "bounds": bounds,
        "slices": slices,
        "written": 0,
        "complete": False,
    }
    files.write(STATE, json.dumps(state))
    return state, False


def _slice(frame: DataFrame, bounds: Bounds, slices: int) -> DataFrame:
    """Adds which slice a row is in; rows that came into the table after it was looked at are left out."""
    from pyspark.sql import functions

    number = functions.lit(None).cast("int")
    place = functions.concat_ws("/", "topic", "partition")
    offset = functions.col("offset")
    for name, (first, last, _) in bounds.items():
        share = (offset - first) * slices / (last - first + 1)
        inside = (place == name) & offset.between(first, last)
        number = functions.when(inside, functions.floor(share).cast("int")).otherwise(number)
    return frame.withColumn("slice", number).where("slice IS NOT NULL")


def _write(frame: DataFrame, number: int, request: Replay, bootstrap: str, checkpoint: str) -> int:
    from tidelog.pipelines.topics.topic_sink import write_topic

    written: Any = write_topic(
        frame.where(f"slice = {number}").drop("slice"),
        request.topic,
        bootstrap=bootstrap,
        key="key",
        value="value",
        headers="headers",
        timestamp="timestamp",
        partition="partition" if request.keep_partitions else None,
        order_by=("topic", "partition", "offset"),
        checkpoint=checkpoint,
        options=dict(request.client),
    )
    return int(written.rows or 0) + int(written.rows_skipped)
