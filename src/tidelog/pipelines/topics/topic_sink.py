"""`write_topic()`: a DataFrame into a topic, batch or streaming, exactly once or at least once.

Exactly once: every row is routed to its target partition, each lane of rows goes to one task, and the task writes its
rows and the batch's marker in one transaction (`delivery/lane_writer`). No transaction spans executors: a batch that
runs again finds the lanes that are done and writes the others. This rests on a batch that runs again having the same
rows, and on their layout being pinned in the checkpoint (`delivery/sink_state`). A lane is a set of target partitions,
or, where the tasks that read a topic can write too, a source partition (`source_lanes`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.delivery import sink_state
from tidelog.pipelines.delivery.batch_errors import searchable
from tidelog.pipelines.delivery.checkpoint import files_in
from tidelog.pipelines.delivery.triggers import Trigger, as_trigger
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.formats.encoders import WrittenPart, part_encoder
from tidelog.pipelines.topics.broker import (
    LARGE_RECORDS,
    client_settings,
    connector_options,
    librdkafka_options,
    partition_counts,
)
from tidelog.pipelines.topics.record_columns import (
    PARTITION,
    RecordShape,
    headers_column,
    key_column,
    key_object,
    order_columns,
    partition_but_hash,
    partition_column,
    timestamp_column,
    value_column,
    value_object,
    with_encoded_keys,
)
from tidelog.pipelines.topics.source_lanes import source_scan, task_lanes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

DELIVERIES = ("exactly-once", "at-least-once")
PARTITIONERS = ("murmur2", "fnv1a", "crc32")
TRANSACTION_TIMEOUT_S = 300
"""How long one lane may take for one batch, and a killed run can keep readers of committed records waiting."""
SOURCE_LANES_PER_CORE_MAX = 4
"""With more source partitions than this, a transaction for each costs more than bringing their rows together."""
SOURCE_MARKERS_MAX = 1024
"""Each lane of a source partition ends its transaction in every target partition."""
_LANE = "__tidelog_lane"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWrite:
    """What a batch write did. `rows` is None where the plain sink wrote, which does not count."""

    topic: str
    rows: int | None
    rows_skipped: int = 0
    """Rows that an earlier run of the same write had committed already."""


@dataclass(frozen=True, kw_only=True)
class TopicBatch:
    """Writes one batch exactly once."""

    state: sink_state.SinkState
    shape: RecordShape
    settings: Mapping[str, Any]

    def __call__(self, df: DataFrame, batch: int) -> TopicWrite:
        from tidelog.pipelines.delivery.lane_writer import RESULT, LaneTarget, write_lane

        layout = self.state.layout(batch)
        source_lanes = self._source_lanes(df, batch) if layout.by_source else None
        records = self._records(df, layout)
        if not layout.by_source:
            records = _brought_together(records, layout.lanes)
        target = LaneTarget(
            topic=self.state.topic,
            sink_id=self.state.sink_id,
            batch=batch,
            partitions=layout.partitions,
            partitioner=self.state.partitioner,
            source_lanes=source_lanes,
            settings=self.settings,
            transaction_timeout_s=TRANSACTION_TIMEOUT_S,
        )
        results = records.mapInArrow(functools.partial(write_lane, target), RESULT).collect()
        return TopicWrite(
            topic=self.state.topic,
            rows=sum(result["rows"] for result in results if not result["skipped"]),
            rows_skipped=sum(result["rows"] for result in results if result["skipped"]),
        )

    def write(self, df: DataFrame, batch: int) -> None:
        """What `foreachBatch` calls, which takes no result."""
        self(df, batch)

    def _source_lanes(self, df: DataFrame, batch: int) -> tuple[str, ...]:
        lanes = task_lanes(df)
        if lanes is None:
            raise PipelineError(
                f"batch {batch} into topic {self.state.topic} was planned in the tasks that read its source, and its"
                " steps are others now: finish it with the steps it was begun with, or start with a new checkpoint"
            )
        return lanes

    def _records(self, df: DataFrame, layout: sink_state.Layout) -> DataFrame:
        """Partition, key, value, then headers and timestamp if there are any, then what rows are sorted by."""
        from pyspark.sql import functions as F  # noqa: N812

        df, shape = with_encoded_keys(df, self.shape)
        partition = partition_but_hash if layout.by_source else partition_column
        columns = [
            partition(df, shape, self.state.partitioner, layout.partitions).alias(PARTITION),
            key_column(df, shape).alias("key"),
            value_column(df, shape).alias("value"),
        ]
        headers, timestamp = headers_column(df, shape), timestamp_column(df, shape)
        if headers is not None:
            columns.append(headers.alias("headers"))
        if timestamp is not None:
            columns.append(timestamp.alias("timestamp"))
        order = [] if layout.by_source else order_columns(df, shape)
        columns += [F.col(f"`{name}`").alias(f"__order_{index}") for index, name in enumerate(order)]
        return df.select(*columns)


def write_topic(
    df: DataFrame,
    topic: str,
    *,
    bootstrap: str,
    key: str | Column | Sequence[str] | None = None,
    value: str | Column | Sequence[str] | None = None,
    value_format: str = "json",
    schema: str | None = None,
    message: str | None = None,
    key_format: str = "json",
    key_schema: str | None = None,
    key_message: str | None = None,
    registry: str | None = None,
    headers: str | Column | Mapping[str, str] | None = None,
    timestamp: str | Column | None = None,
    partition: str | Column | None = None,
    delivery: str = "exactly-once",
    partitioner: str = "murmur2",
    order_by: Sequence[str] | None = None,
    checkpoint: str | None = None,
    trigger: str | Trigger | None = None,
    output_mode: str = "append",
    name: str | None = None,
    options: Mapping[str, str] | None = None,
) -> TopicWrite | StreamingQuery:
    """Write rows as records: a batch returns what was written, a stream the running query.

    `key` and `value` are a column (text and bytes as they are, everything else as JSON) or a list of columns (one
    JSON object); by default the columns `key` and `value` if there are such, else no key and the whole row as one
    JSON object. A null value is a tombstone. With another `value_format` that object, or a column, is written as avro
    or protobuf (by the `schema`: an Avro schema as JSON text, or the path of a Protobuf descriptor file with the
    `message` name) or as registry-avro or registry-protobuf: framed for the schema `registry` with the id of that
    schema, which is registered under `<topic>-value`; without one the newest there counts. `key_format`, `key_schema`
    and `key_message` say the same of keys (`<topic>-key`); there the newest is that of the checkpoint's first run.

    `headers` is an array of key and value (default: the column `headers` if there is one) or fixed texts. `partition`
    names the target partition, else the `partitioner` does (murmur2, fnv1a, crc32: the one the topic's other producers
    use); rows without a key are spread by their value. Rows of a target partition are in the order of `order_by`
    (default: `topic`, `partition`, `offset` if there are such); a stream that only selects keeps that of its source.

    delivery="exactly-once" needs a `checkpoint` for a stream; a batch with one can be run again after a crash and
    writes only what is missing. "at-least-once" is the connector's plain sink. `trigger`: None (as fast as possible),
    "available-now", an interval ("10 seconds"), or "continuous 1 second" (at-least-once only). `output_mode`: append,
    or update and complete for aggregations without a watermark. `options`: librdkafka's; at-least-once the connector's.
    """
    _check_choices(delivery, partitioner)
    keys = WrittenPart(name="key", format=key_format, schema=key_schema, message=key_message, registry=registry)
    values = WrittenPart(name="value", format=value_format, schema=schema, message=message, registry=registry)
    shape = RecordShape(
        key=key, value=value, headers=headers, timestamp=timestamp, partition=partition, order_by=order_by
    )
    kept = _kept_keys(df, checkpoint) if delivery == "exactly-once" and key_format != "json" else None
    shape, key_encoding = _with_encoding(shape, df, topic, keys, values, kept)
    chosen = as_trigger(trigger)
    if df.isStreaming and checkpoint is None:
        raise PipelineError(f"a stream into topic {topic} needs checkpoint=, a directory that outlives the query")
    if delivery == "at-least-once":
        writer = _plain_writer(df, shape, topic, bootstrap, partitioner, options)
        if df.isStreaming:
            return _start(writer, name, checkpoint, output_mode, chosen)
        writer.save()
        return TopicWrite(topic=topic, rows=None)
    if chosen is not None and chosen.kind == "continuous":
        raise PipelineError("a continuous trigger has no batches to count: use delivery='at-least-once' or an interval")
    state = _prepare(df, shape, topic, bootstrap, partitioner, checkpoint, options, key_encoding)
    batch = _batch_writer(df, shape, state, producer_settings(bootstrap, options))
    if not df.isStreaming:
        return batch(df, 0)
    return _start(df.writeStream.foreachBatch(searchable(batch.write)), name, checkpoint, output_mode, chosen)


def _batch_writer(
    df: DataFrame, shape: RecordShape, state: sink_state.SinkState, settings: Mapping[str, Any]
) -> TopicBatch:
    writer = TopicBatch(state=state, shape=shape, settings=settings)
    # A wrong column shows here and not in the first batch.
    writer._records(df, sink_state.Layout(from_batch=0, partitions=1, lanes=1))
    return writer


def _check_choices(delivery: str, partitioner: str) -> None:
    if delivery not in DELIVERIES:
        raise PipelineError(f"delivery={delivery!r}: use 'exactly-once' or 'at-least-once'")
    if partitioner not in PARTITIONERS:
        raise PipelineError(f"partitioner={partitioner!r}: use {', '.join(PARTITIONERS)}")


def _kept_keys(df: DataFrame, checkpoint: str | None) -> sink_state.KeyEncoding | None:
    """How the runs before this one have written keys."""
    content = files_in(df.sparkSession, checkpoint).read_json(sink_state.FILE) if checkpoint is not None else None
    return None if content is None else sink_state.parse_state(content, f"{checkpoint}/{sink_state.FILE}").key


def _with_encoding(
    shape: RecordShape,
    df: DataFrame,
    topic: str,
    keys: WrittenPart,
    values: WrittenPart,
    kept: sink_state.KeyEncoding | None,
) -> tuple[RecordShape, sink_state.KeyEncoding]:
    """The shape with the encoders of its keys and values, where they take one."""
    keys.check()
    values.check()
    key_encoding = sink_state.JSON_KEYS
    if keys.format != "json":
        [column] = df.select(key_object(df, shape)).schema.fields
        encode_key, key_encoding = part_encoder(df.sparkSession, keys, topic, column, kept)
        shape = replace(shape, encode_key=encode_key)
    if values.format != "json":
        [column] = df.select(value_object(df, shape)).schema.fields
        encode, _ = part_encoder(df.sparkSession, values, topic, column)
        shape = replace(shape, encode=encode)
    return shape, key_encoding


def producer_settings(bootstrap: str, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """librdkafka settings of the lanes' producers."""
    timeout_ms = TRANSACTION_TIMEOUT_S * 1000
    return client_settings(
        bootstrap,
        {
            "transaction.timeout.ms": str(timeout_ms),
            "linger.ms": "20",
            # Half of it is also how long a new client waits before it connects to a second broker.
            "reconnect.backoff.ms": "20",
            "queue.buffering.max.messages": "200000",
            "queue.buffering.max.kbytes": "262144",
            **LARGE_RECORDS,
            # Otherwise librdkafka forgets its brokers when none answers, but not the coordinator of a group, and
            # waits for that without end when the batch marker is sent (librdkafka issues 5511 and 5456).
            "metadata.recovery.strategy": "none",
            **(options or {}),
        },
    )


def _brought_together(records: DataFrame, lanes: int) -> DataFrame:
    """The rows of every lane of target partitions in one task, sorted if there is anything to sort by."""
    from pyspark.sql import functions as F  # noqa: N812

    laned = records.withColumn(_LANE, (F.col(PARTITION) % lanes).cast("int"))
    together = laned.repartitionById(lanes, F.col(_LANE))
    order = [name for name in records.columns if name.startswith("__order_")]
    return (together.sortWithinPartitions(*order) if order else together).drop(_LANE, *order)


def _prepare(
    df: DataFrame,
    shape: RecordShape,
    topic: str,
    bootstrap: str,
    partitioner: str,
    checkpoint: str | None,
    options: Mapping[str, str] | None,
    key: sink_state.KeyEncoding,
) -> sink_state.SinkState:
    """The sink's state, pinned in the checkpoint before any row is written."""
    spark = df.sparkSession
    if spark.conf.get("spark.speculation", "false") == "true":
        raise PipelineError(
            "spark.speculation is on: two copies of a task would take each other's transactional id for ever;"
            " turn it off for exactly-once, or use delivery='at-least-once'"
        )
    partitions = partition_counts(bootstrap, [topic], options)[topic]
    lanes, by_source = _lanes(spark, partitions), _by_source(df, shape, partitions)
    if checkpoint is None:
        return sink_state.new_state(topic, partitioner, partitions, lanes, key=key)
    files = files_in(spark, checkpoint)
    where = f"{checkpoint}/{sink_state.FILE}"
    content, progress = files.read_json(sink_state.FILE), files.progress()
    if content is None:
        if progress.planned >= 0:
            raise PipelineError(f"the checkpoint {checkpoint} belongs to a query with another sink: use another one")
        state = sink_state.new_state(topic, partitioner, partitions, lanes, by_source, key)
    else:
        known = sink_state.parse_state(content, where)
        state = sink_state.follow(
            known,
            topic=topic,
            partitioner=partitioner,
            partitions=partitions,
            lanes=lanes,
            by_source=by_source,
            key=key,
            # A batch write is one batch, which was begun when its state was written.
            next_fresh=progress.next_fresh if df.isStreaming else 1,
        )
    if content is None or state.to_json() != content:
        files.write(sink_state.FILE, json.dumps(state.to_json()))
    return state


def _lanes(spark: SparkSession, partitions: int) -> int:
    """Twice as many lanes as tasks run at once: a transaction costs the same for one partition and for ten."""
    context = getattr(spark, "sparkContext", None) if hasattr(spark, "_jsc") else None
    return min(partitions, 2 * context.defaultParallelism) if context is not None else partitions


def _by_source(df: DataFrame, shape: RecordShape, partitions: int) -> bool:
    """Whether the tasks that read a topic write too: nothing moves rows between tasks, and they are not many."""
    scan = source_scan(df) if df.isStreaming and shape.order_by is None else None
    if scan is None:
        return False
    lanes = sum(partition_counts(scan.bootstrap, scan.topics, scan.client).values())
    few = SOURCE_LANES_PER_CORE_MAX * df.sparkSession.sparkContext.defaultParallelism
    return lanes <= few and lanes * partitions <= SOURCE_MARKERS_MAX


def _plain_writer(
    df: DataFrame,
    shape: RecordShape,
    topic: str,
    bootstrap: str,
    partitioner: str,
    options: Mapping[str, str] | None,
) -> Any:
    """Spark's own sink, of a batch or a stream."""
    partitions = partition_counts(bootstrap, [topic], librdkafka_options(options))[topic]
    plain = _plain_records(df, shape, partitioner, partitions)
    connector = {"kafka.bootstrap.servers": bootstrap, "topic": topic, **connector_options(options)}
    return (plain.writeStream if df.isStreaming else plain.write).format("kafka").options(**connector)


def _plain_records(df: DataFrame, shape: RecordShape, partitioner: str, partitions: int) -> DataFrame:
    """What Spark's own sink takes; its producer's partitioner is murmur2."""
    if shape.timestamp is not None:
        raise PipelineError("timestamp= needs delivery='exactly-once': Spark's own sink cannot set it")
    df, shape = with_encoded_keys(df, shape)
    columns = [key_column(df, shape).alias("key"), value_column(df, shape).alias("value")]
    headers = headers_column(df, shape)
    if headers is not None:
        columns.append(headers.alias("headers"))
    if shape.partition is not None or partitioner != "murmur2":
        columns.append(partition_column(df, shape, partitioner, partitions).alias("partition"))
    return df.select(*columns)


def _start(
    writer: Any, name: str | None, checkpoint: str | None, output_mode: str, trigger: Trigger | None
) -> StreamingQuery:
    writer = writer.outputMode(output_mode).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    if trigger is not None:
        writer = writer.trigger(**trigger.spark_arguments())
    return writer.start()
