"""Starts the query of a sink: a streaming query, or one pass over tables that is done when it returns.

Both are handed out as a `Running`, which the supervisor watches without having to know which it is.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from tidelog.pipelines.delivery.batch_errors import searchable
from tidelog.pipelines.delivery.checkpoint import files_in
from tidelog.pipelines.delivery.triggers import Trigger
from tidelog.pipelines.run.progress import ROWS_OUT
from tidelog.pipelines.spec.model import (
    ConsoleSink,
    FilesSink,
    Pipeline,
    Sink,
    TableSink,
    TopicSink,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

PASSES = "passes.json"
"""In the checkpoint of a sink that is no stream: how many passes over its tables were completed."""

ShowRows = Callable[[str, int, Sequence[str], Sequence[Sequence[Any]]], None]
"""Takes what a console sink shows: its name, the batch, the columns and the rows."""


class Running(Protocol):
    def is_active(self) -> bool: ...
    def failure(self) -> BaseException | None: ...
    def reports(self, after_batch: int) -> Iterable[dict[str, Any]]: ...
    def stop(self) -> None: ...


class StreamingRun:
    """A streaming query of Spark."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    def is_active(self) -> bool:
        return bool(self._query.isActive)

    def failure(self) -> BaseException | None:
        error: BaseException | None = self._query.exception()
        return error

    def reports(self, after_batch: int) -> Iterable[dict[str, Any]]:
        """Progress since a batch; the last report alone unless batches were missed between two looks."""
        last = _report(self._query.lastProgress)
        if last is None:
            return []
        if last.get("batchId", 0) <= after_batch + 1:
            return [last]
        recent = [report for report in map(_report, self._query.recentProgress) if report is not None]
        return [report for report in recent if report.get("batchId", 0) > after_batch]

    def stop(self) -> None:
        self._query.stop()


def _report(progress: Any) -> dict[str, Any] | None:
    if progress is None:
        return None
    text = getattr(progress, "json", None)
    found: dict[str, Any] = json.loads(text) if isinstance(text, str) else dict(progress)
    return found


class BatchRun:
    """One pass over tables, in a thread: the other queries go on meanwhile."""

    def __init__(self, work: Callable[[], int | None], name: str) -> None:
        self._error: BaseException | None = None
        self._rows: int | None = None
        self._seconds = 0.0
        self._done = False
        self._thread = threading.Thread(target=self._run, args=(work,), name=f"batch {name}", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], int | None]) -> None:
        began = time.monotonic()
        try:
            self._rows = work()
            self._seconds = time.monotonic() - began
            self._done = True
        except BaseException as error:
            self._error = error

    def is_active(self) -> bool:
        return self._thread.is_alive()

    def failure(self) -> BaseException | None:
        return None if self.is_active() else self._error

    def reports(self, after_batch: int) -> Iterable[dict[str, Any]]:
        if not self._done or after_batch >= 0:
            return []
        took_ms = max(1, round(self._seconds * 1000))
        report: dict[str, Any] = {"batchId": 0, "numInputRows": self._rows, "durationMs": {"triggerExecution": took_ms}}
        report["durationMs"]["addBatch"] = took_ms
        if self._rows is not None:
            report["observedMetrics"] = {ROWS_OUT: {ROWS_OUT: self._rows}}
            report["processedRowsPerSecond"] = self._rows * 1000 / took_ms
        return [report]

    def stop(self) -> None:
        self._thread.join(timeout=0.1)


def start_query(
    frame: DataFrame, sink: Sink, pipeline: Pipeline, *, bootstrap: str, checkpoint: str, show_rows: ShowRows
) -> Running:
    """Starts writing `frame` where the sink says; the query's own files are in `checkpoint`."""
    if frame.isStreaming:
        return StreamingRun(_start_streaming(frame, sink, pipeline, bootstrap, checkpoint, show_rows))

    def write_once() -> int | None:
        # A pass that was interrupted is taken up under its number; the next whole pass gets a number of its own.
        files = files_in(frame.sparkSession, checkpoint)
        number = int((files.read_json(PASSES) or {"done": 0})["done"])
        rows = _write_batch(frame, sink, pipeline, bootstrap, f"{checkpoint}/pass-{number}", show_rows)
        files.write(PASSES, json.dumps({"done": number + 1}))
        return rows

    return BatchRun(write_once, sink.name)


def _start_streaming(
    frame: DataFrame, sink: Sink, pipeline: Pipeline, bootstrap: str, checkpoint: str, show_rows: ShowRows
) -> StreamingQuery:
    if isinstance(sink, TopicSink):
        return _write_topic(frame, sink, pipeline, bootstrap, checkpoint, sink.trigger)
    if isinstance(sink, TableSink):
        return _write_table(frame, sink, checkpoint, sink.trigger)
    writer = frame.writeStream.queryName(sink.name).outputMode(sink.mode).options(**sink.options)
    writer = writer.option("checkpointLocation", checkpoint).trigger(**sink.trigger.spark_arguments())
    if isinstance(sink, FilesSink):
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
        return writer.format(sink.format).start(sink.location)
    if sink.trigger.kind == "continuous":
        return writer.format("console").option("numRows", sink.rows_max).start()
    console = sink

    def show(batch: DataFrame, batch_id: int) -> None:
        _show(batch, console, batch_id, show_rows)

    return writer.foreachBatch(searchable(show)).start()


def _write_batch(
    frame: DataFrame, sink: Sink, pipeline: Pipeline, bootstrap: str, checkpoint: str, show_rows: ShowRows
) -> int | None:
    """Writes everything there is now; the number of rows where the sink knows it."""
    match sink:
        case TopicSink():
            done = _write_topic(frame, sink, pipeline, bootstrap, checkpoint, None)
            rows: int | None = done.rows
            return rows
        case TableSink():
            _write_table(frame, sink, checkpoint, None)
        case FilesSink():
            from tidelog.pipelines.tables.table_sink import write_files

            write_files(
                frame,
                sink.location,
                format=sink.format,
                partition_by=sink.partition_by,
                checkpoint=checkpoint,
                options=sink.options,
            )
        case ConsoleSink():
            return _show(frame, sink, 0, show_rows)
        case _:
            assert_never(sink)
    return None


def _show(frame: DataFrame, sink: ConsoleSink, batch: int, show_rows: ShowRows) -> int:
    """All rows are computed though few are shown: rules and dead letters are about every one of them."""
    frame.persist()
    try:
        rows = int(frame.count())
        show_rows(sink.name, batch, frame.columns, [tuple(row) for row in frame.limit(sink.rows_max).collect()])
    finally:
        frame.unpersist()
    return rows


def _write_topic(
    frame: DataFrame, sink: TopicSink, pipeline: Pipeline, bootstrap: str, checkpoint: str, trigger: Trigger | None
) -> Any:
    from tidelog.pipelines.topics.topic_sink import write_topic

    prefix = "" if sink.delivery == "exactly-once" else "kafka."
    return write_topic(
        frame,
        sink.topic,
        bootstrap=bootstrap,
        key=_columns(sink.key),
        value=_columns(sink.value),
        value_format=sink.format,
        schema=sink.schema or None,
        message=sink.message or None,
        key_format=sink.key_format,
        key_schema=sink.key_schema or None,
        key_message=sink.key_message or None,
        registry=sink.registry or None,
        headers=sink.headers or None,
        timestamp=sink.timestamp or None,
        order_by=sink.order_by or None,
        delivery=sink.delivery,
        partitioner=sink.partitioner,
        checkpoint=checkpoint,
        trigger=trigger,
        output_mode=sink.mode,
        name=sink.name,
        options={**{f"{prefix}{name}": value for name, value in pipeline.client.items()}, **sink.options},
    )


def _write_table(frame: DataFrame, sink: TableSink, checkpoint: str, trigger: Trigger | None) -> Any:
    from tidelog.pipelines.tables.table_sink import write_table

    return write_table(
        frame,
        sink.location,
        format=sink.format,
        mode=sink.write,
        key=sink.key or None,
        delete_when=sink.delete_when or None,
        order_by=sink.order_by or None,
        exclude=sink.exclude,
        partition_by=sink.partition_by,
        checkpoint=checkpoint,
        trigger=trigger,
        output_mode=sink.mode,
        name=sink.name,
        options=sink.options,
    )


def _columns(names: tuple[str, ...]) -> str | tuple[str, ...] | None:
    """One column as it is, several as an object, none as the writer's default."""
    if not names:
        return None
    return names[0] if len(names) == 1 else names


def packages_needed(pipeline: Pipeline) -> tuple[str, ...]:
    """Jars beside the pinned ones, as the file names them."""
    return tuple(name.strip() for name in pipeline.spark.get("packages", "").split(",") if name.strip())


def tables_needed(pipeline: Pipeline) -> tuple[str, ...]:
    """The table formats that need jars of their own."""
    parts = [*pipeline.sources.values(), *pipeline.sinks.values()]
    formats = {getattr(part, "format", "") for part in parts}
    return tuple(name for name in ("delta", "iceberg") if name in formats)
