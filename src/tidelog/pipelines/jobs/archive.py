"""`archive`: topics into a table, every record whole: key, value, headers, topic, partition, offset, timestamp.

It is a pipeline like any other, made here instead of in a file, so it is exactly once, resumes where it was, and is
watched, counted and stopped the same way. Rows are partitioned by topic and date (UTC).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.spec.model import Pipeline, SqlStep, TableSink, TopicSource, Trigger

FORMATS = ("parquet", "delta", "iceberg")
OWN_DIRECTORY = "_tidelog"
"""Beside the data of a table; readers leave out what begins with an underscore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What is archived, and where to."""

    topics: Sequence[str]
    path: str
    format: str = "parquet"
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
    if archive.format not in FORMATS:
        raise PipelineError(f"format {archive.format!r}: use {', '.join(FORMATS)}")
    checkpoint = archive.checkpoint or own_directory(archive.path, "archive")
    topics = tuple(dict.fromkeys(archive.topics))
    if "://" not in checkpoint:
        _check_topics(Path(checkpoint), topics, archive.path)
    trigger = Trigger(kind="interval", interval_ms=archive.interval_ms)
    source = TopicSource(
        name="records",
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
        sql="SELECT *, to_date(timestamp) AS date FROM records",
        sql_line=0,
        inputs=("records",),
    )
    sink = TableSink(
        name="table",
        line=0,
        input="dated",
        trigger=trigger if archive.interval_ms else Trigger(kind="available-now"),
        location=archive.path,
        format=archive.format,
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


def _check_topics(checkpoint: Path, topics: tuple[str, ...], path: str) -> None:
    """An archive goes on with the topics it has, and may get more; one less would look like a loss to Spark."""
    kept = checkpoint / "topics.json"
    before: list[str] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else []
    missing = [topic for topic in before if topic not in topics]
    if missing:
        names = ", ".join(missing)
        raise PipelineError(f"{path} is an archive of {names} too; name it as well, or choose another path")
    if set(before) != set(topics):
        checkpoint.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(sorted(topics)) + "\n", encoding="utf-8")
