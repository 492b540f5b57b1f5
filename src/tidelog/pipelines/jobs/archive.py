"""`archive`: topics into a table, every record whole: key, value, headers, topic, partition, offset, timestamp.

It is a pipeline like any other, made here instead of in a file, so it is exactly once, resumes where it was, and is
watched, counted and stopped the same way. Rows are partitioned by topic and date (UTC).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidelog.pipelines.delivery.triggers import Trigger
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.run.state_files import StateFiles
from tidelog.pipelines.spec.model import Pipeline, SqlStep, TableSink, TopicSource
from tidelog.pipelines.tables.table_files import FORMATS, check_format, is_catalog_name, seen_format
from tidelog.pipelines.topics.positions import check_start

OWN_DIRECTORY = "_tidelog"
"""Beside the data of a table; readers leave out what begins with an underscore."""
SOURCE, SINK = "records", "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What is archived, and where to."""

    topics: Sequence[str]
    path: str
    format: str = ""
    """Empty: the one of the table that is there, else parquet."""
    checkpoint: str = ""
    """Empty: inside the table's directory."""
    interval_ms: int = 0
    """0: what there is now, then end."""
    start: str = "earliest"
    records_per_batch_max: int = 0
    on_data_loss_continue: bool = False
    client: Mapping[str, str] = field(default_factory=dict)


def archive_pipeline(archive: Archive) -> Pipeline:
    """The pipeline that does it; PipelineError when the path holds another archive."""
    if archive.format not in ("", *FORMATS):
        raise PipelineError(f"format {archive.format!r}: use {', '.join(FORMATS)}")
    check_start(archive.start)
    checkpoint = archive.checkpoint or own_directory(archive.path, "archive")
    topics = tuple(dict.fromkeys(archive.topics))
    kept = StateFiles(checkpoint).read_fingerprint() or {}
    _check_topics(kept, topics, archive.path)
    trigger = Trigger(kind="interval", interval_ms=archive.interval_ms)
    source = TopicSource(
        name=SOURCE,
        line=0,
        topics=topics,
        value="bytes",
        key="bytes",
        start=archive.start,
        on_invalid="stop",
        on_data_loss="continue" if archive.on_data_loss_continue else "stop",
        records_per_batch_max=archive.records_per_batch_max,
    )
    step = SqlStep(
        name="dated",
        line=0,
        sql=f"SELECT *, to_date(timestamp) AS date FROM {SOURCE}",
        sql_line=0,
        inputs=(SOURCE,),
    )
    sink = TableSink(
        name=SINK,
        line=0,
        input="dated",
        trigger=trigger if archive.interval_ms else Trigger(kind="available-now"),
        location=archive.path,
        format=_choose_format(archive, kept),
        partition_by=("topic", "date"),
    )
    return Pipeline(
        path=Path(f"archive of {', '.join(topics)}"),
        name="archive",
        bootstrap="",
        checkpoint=checkpoint,
        sources={source.name: source},
        steps={step.name: step},
        sinks={sink.name: sink},
        client=archive.client,
    )


def own_directory(path: str, purpose: str) -> str:
    """Where a job keeps its own files for a table that is a directory."""
    if "/" not in path:
        raise PipelineError(f"{path} is a table of a catalog; say with --checkpoint where the job may keep its state")
    return f"{path.rstrip('/')}/{OWN_DIRECTORY}/{purpose}"


def _choose_format(archive: Archive, kept: Mapping[str, Any]) -> str:
    """The one asked for, which must be that of the table if there is one; else that of the table, else parquet.

    A first run over an empty topic makes no table: the checkpoint knows then what it was going to be.
    """
    target: str = kept.get("sinks", {}).get(SINK, {}).get("target", "")
    found = seen_format(archive.path) or target.partition(" ")[0]
    if found and archive.format:
        check_format(archive.path, found, archive.format)
    usual = "iceberg" if is_catalog_name(archive.path) else "parquet"
    return archive.format or found or usual


def _check_topics(kept: Mapping[str, Any], topics: tuple[str, ...], path: str) -> None:
    """An archive goes on with the topics it has, and may get more; one less would look like a loss to Spark."""
    missing = [topic for topic in archived_topics(kept) if topic not in topics]
    if missing:
        names = ", ".join(missing)
        raise PipelineError(f"{path} is an archive of {names} too; name it as well, or choose another path")


def archived_topics(kept: Mapping[str, Any]) -> list[str]:
    """The topics that the checkpoint of an archive was written for: known when its first run had begun."""
    position: str = kept.get("sinks", {}).get(SINK, {}).get("sources", {}).get(SOURCE, "")
    return position.removeprefix("topic ").split(", ") if position else []
