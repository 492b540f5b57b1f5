"""Whether a frame has the columns that its sink names: judged before any query is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.run.explain import place_of
from tidelog.pipelines.spark.spark_errors import explain_analysis
from tidelog.pipelines.spec.model import FilesSink, Pipeline, Sink, TableSink, TopicSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_columns(pipeline: Pipeline, sink: Sink, frame: DataFrame) -> None:
    """PipelineError, with the line of the key, for a column that is not there."""
    for key, names in _named_columns(sink).items():
        absent = [name for name in names if name not in frame.columns]
        if absent:
            there = ", ".join(frame.columns)
            raise PipelineError(f"{_place(pipeline, sink, key)}: unknown column {', '.join(absent)}; there is {there}")
    if isinstance(sink, TableSink) and sink.delete_when:
        from pyspark.errors import AnalysisException

        try:
            frame.where(sink.delete_when)
        except AnalysisException as error:
            raise PipelineError(f"{_place(pipeline, sink, 'delete-when')}: {explain_analysis(error)}") from None


def _named_columns(sink: Sink) -> Mapping[str, Sequence[str]]:
    """Key of the file -> columns."""
    match sink:
        case TopicSink():
            single = {"headers": sink.headers, "timestamp": sink.timestamp}
            several = {"key": sink.key, "value": sink.value, "order-by": sink.order_by}
            return {**several, **{key: (name,) for key, name in single.items() if name}}
        case TableSink():
            return {
                "key": sink.key,
                "order-by": sink.order_by,
                "exclude": sink.exclude,
                "partition-by": sink.partition_by,
            }
        case FilesSink():
            return {"partition-by": sink.partition_by}
        case _:
            return {}


def _place(pipeline: Pipeline, sink: Sink, key: str) -> str:
    return f"{place_of(pipeline, sink.lines.get(key, sink.line))}: {key} of sink {sink.name}"
