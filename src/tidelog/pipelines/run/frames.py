"""From the model to DataFrames: every sink gets the frame it takes, with watermarks, rules and counters in place.

A record that cannot be parsed, or a row that a rule drops, must leave once, however many sinks read the source: one
sink sends the dead letters of a relation (run/senders.py), the others only leave those rows out.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.run.explain import RULE_MARK, explain_frame_error
from tidelog.pipelines.run.progress import ROWS_OUT, RULES
from tidelog.pipelines.run.sink_columns import check_columns
from tidelog.pipelines.spec.graph import upstream
from tidelog.pipelines.spec.model import (
    DeduplicateStep,
    FilesSource,
    Pipeline,
    PythonStep,
    Relation,
    Rule,
    Sink,
    SqlStep,
    TableSource,
    TopicSource,
)
from tidelog.pipelines.topics.original_records import RECORD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FrameBuilder:
    """Builds the frames of one pipeline on one session."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, bootstrap: str, senders: Mapping[str, str] | None = None
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._bootstrap = bootstrap
        self._senders = senders or {}
        # What an aborted transaction left in a topic was never said.
        self._client = {"kafka.isolation.level": "read_committed"}
        self._client |= {f"kafka.{name}": value for name, value in pipeline.client.items()}
        self._shipped: set[str] = set()
        _silence_stacks()

    def build(self, sink: Sink) -> DataFrame:
        """What the sink takes; PipelineError names the file, the line and what is wrong there."""
        frame = self.build_relations(sink.input, sender=sink)[sink.input]
        check_columns(self._pipeline, sink, frame)
        if not frame.isStreaming or sink.trigger.kind == "continuous":
            return frame
        from pyspark.sql import functions

        return frame.observe(ROWS_OUT, functions.count(functions.lit(1)).alias(ROWS_OUT))

    def build_relations(self, name: str, sender: Sink | None = None) -> dict[str, DataFrame]:
        """The relation `name` and everything it is made from."""
        frames: dict[str, DataFrame] = {}
        for part in upstream(self._pipeline, name):
            relation = self._pipeline.relation(part)
            sends = sender is not None and self._senders.get(part) == sender.name
            # Spark counts per batch, and a continuous query has none.
            counts = self._pipeline.is_streaming(part) and (sender is None or sender.trigger.kind != "continuous")
            try:
                frame = self._frame(relation, frames, sends=sends, counts=counts)
            except Exception as error:
                raise explain_frame_error(self._pipeline, relation, error) from error
            frames[part] = self._guard(frame, relation, sends=sends, counts=counts).drop(RECORD)
        return frames

    # -- relations -----------------------------------------------------------------------------------------------

    def _frame(self, relation: Relation, frames: dict[str, DataFrame], *, sends: bool, counts: bool) -> DataFrame:
        match relation:
            case TopicSource():
                return self._read_topic(relation, sends=sends, counts=counts)
            case TableSource():
                from tidelog.pipelines.tables.table_sink import read_table

                return read_table(
                    self._spark,
                    relation.location,
                    format=relation.format,
                    stream=relation.streaming,
                    options=relation.options,
                )
            case FilesSource():
                reader: Any = self._spark.readStream if relation.streaming else self._spark.read
                if relation.schema:
                    reader = reader.schema(relation.schema)
                return reader.format(relation.format).options(**relation.options).load(relation.location)
            case SqlStep():
                for name in relation.inputs:
                    frames[name].createOrReplaceTempView(name)
                return self._spark.sql(relation.sql)
            case PythonStep():
                return self._call(relation, [frames[name] for name in relation.inputs])
            case DeduplicateStep():
                frame = frames[relation.inputs[0]]
                columns = list(relation.columns)
                return (
                    frame.dropDuplicatesWithinWatermark(columns) if frame.isStreaming else frame.dropDuplicates(columns)
                )
            case _:
                raise AssertionError(f"an unknown relation: {relation}")

    def _read_topic(self, source: TopicSource, *, sends: bool, counts: bool) -> DataFrame:
        from tidelog.pipelines.topics.topic_source import read_topic

        on_bad = "fail" if source.on_invalid == "stop" else "dead-letter" if sends else "skip"
        return read_topic(
            self._spark,
            source.topics,
            bootstrap=self._bootstrap,
            value=source.value,
            schema=source.schema or None,
            message=source.message or None,
            key=source.key,
            key_schema=source.key_schema or None,
            key_message=source.key_message or None,
            registry=source.registry or None,
            stream=source.streaming,
            start=source.start,
            on_bad=on_bad,
            dead_letter_topic=source.dead_letters,
            fail_on_data_loss=source.on_data_loss == "stop",
            max_offsets_per_trigger=source.records_per_batch_max or None,
            options={**self._client, **source.options},
            keep_record=sends and any(rule.otherwise == "drop" for rule in source.rules),
            observe=source.name if counts else None,
        )

    def _call(self, step: PythonStep, inputs: Sequence[DataFrame]) -> DataFrame:
        module_name, _, function_name = step.function.partition(":")
        directory = str(self._pipeline.directory.absolute())
        if directory not in sys.path:
            sys.path.insert(0, directory)
        module = importlib.import_module(module_name)
        function = getattr(module, function_name, None)
        if function is None:
            raise PipelineError(f"module {module_name} has no function {function_name}")
        self._ship(module)
        frame = function(*inputs)
        if not hasattr(frame, "createOrReplaceTempView"):
            raise PipelineError(f"{step.function} returned {type(frame).__name__}, not a DataFrame")
        return frame

    def _ship(self, module: Any) -> None:
        """Executors import the module by its name, as user-defined functions in it refer to it by that."""
        file = getattr(module, "__file__", None)
        beside = file is not None and Path(file).parent == self._pipeline.directory.absolute()
        context = getattr(self._spark, "sparkContext", None) if beside else None
        if context is not None and file not in self._shipped:
            context.addPyFile(file)
            self._shipped.add(str(file))

    # -- watermark and rules -------------------------------------------------------------------------------------

    def _guard(self, frame: DataFrame, relation: Relation, *, sends: bool, counts: bool) -> DataFrame:
        from pyspark.sql import functions

        if relation.watermark is not None and frame.isStreaming:
            column = relation.watermark.column
            try:
                if "." in column:
                    # Only a column of its own can carry a watermark.
                    path, column = column, column.rpartition(".")[2]
                    frame = frame.withColumn(column, functions.col(path))
                frame = frame.withWatermark(column, f"{relation.watermark.delay_ms} milliseconds")
            except Exception as error:
                raise explain_frame_error(self._pipeline, relation, error, line=relation.watermark.line) from error
        for rule in relation.rules:
            try:
                frame = self._apply(frame, relation, rule, sends=sends, counts=counts)
            except Exception as error:
                raise explain_frame_error(self._pipeline, relation, error, line=rule.line) from error
        return frame

    def _apply(self, frame: DataFrame, relation: Relation, rule: Rule, *, sends: bool, counts: bool) -> DataFrame:
        from pyspark.sql import functions

        met = functions.coalesce(functions.expr(rule.expect).cast("boolean"), functions.lit(False))
        if counts:
            counted = functions.count(functions.when(~met, 1)).alias(rule.name)
            frame = frame.observe(f"{RULES}{relation.name}_{rule.name}", counted)
        if rule.otherwise == "warn":
            return frame
        if rule.otherwise == "fail":
            names = [name for name in frame.columns if name != RECORD]
            row = functions.to_json(functions.struct(*[functions.col(f"`{name}`") for name in names]))
            message = functions.concat(functions.lit(f"{RULE_MARK}{relation.name}|{rule.name}|"), row)
            return frame.filter(
                functions.when(met, functions.lit(True)).otherwise(functions.raise_error(message).cast("boolean"))
            )
        if not sends:
            return frame.filter(met)
        from tidelog.pipelines.topics.dead_letters import divert

        reason = functions.when(~met, functions.lit(f"rule {rule.name} of {relation.name}: {rule.expect}"))
        return divert(
            frame,
            reason,
            topic=relation.dead_letters,
            bootstrap=self._bootstrap,
            options=dict(self._pipeline.client),
            observe=f"{relation.name}_{rule.name}" if counts else None,
        )


def _silence_stacks() -> None:
    """PySpark logs errors of the analysis and of batches with their whole stack; here they become one line."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j.clientserver"):
        PySparkLogger.getLogger(name).disabled = True
