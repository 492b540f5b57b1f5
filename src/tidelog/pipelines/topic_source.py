"""`read_topic()`: a topic as a DataFrame, batch or streaming, through Spark's own Kafka connector.

Columns: `key`, `value` (parsed: a struct for JSON, CSV, Avro, Protobuf; text; or bytes), `headers` (array of key and
value), `topic`, `partition`, `offset`, `timestamp`. A null value (a tombstone) stays null and is not an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.pipelines import formats, protobuf_format
from tidelog.pipelines.broker import connector_options, ensure_topic, librdkafka_options, partition_counts
from tidelog.pipelines.dead_letters import divert
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.formats import Decoded
from tidelog.pipelines.positions import Position, end_options, start_options
from tidelog.pipelines.registry import subject_schemas

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

SAMPLE_RECORDS_MAX = 1000
"""How many records a schema is inferred from."""
_COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
_RAW = "__tidelog_raw_"
_REASON = "__tidelog_reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoding:
    """How the values of a topic are to be read."""

    format: str
    schema: StructType | str | None
    message: str | None
    registry: str | None


def read_topic(
    spark: SparkSession,
    topic: str | Sequence[str],
    *,
    bootstrap: str,
    value: str = "json",
    schema: StructType | str | None = None,
    key: str = "text",
    message: str | None = None,
    registry: str | None = None,
    stream: bool = False,
    start: Position = "earliest",
    end: Position = "latest",
    on_bad: str = "dead-letter",
    dead_letter_topic: str | None = None,
    fail_on_data_loss: bool = True,
    max_offsets_per_trigger: int | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records of one topic or several, parsed.

    `value` names a format: bytes, text, json, csv, avro, protobuf, registry-avro, registry-protobuf; `key` is text or
    bytes. `schema` is DDL text or a StructType (json, csv), an Avro schema as JSON text, or the path of a Protobuf
    descriptor file with the `message` name; without one JSON is inferred from a sample of the topic, and printed to
    standard error. `registry` is the URL of a schema registry; there `schema` is what to read as, by default the newest
    version, and `message` by default the first one in it.

    A record that cannot be parsed goes to `dead_letter_topic` (default `<topic>.dead-letters`, made if it is not
    there) or, with on_bad="fail", stops the query with its topic, partition and offset; on_bad="skip" leaves it out,
    for a query beside one that sends it. Records that retention or a deleted topic took away before they were read
    stop the query unless `fail_on_data_loss` is False. `start` counts for a new query only: a checkpoint knows
    better. `end` is for batch reads. `options` are the connector's own (`kafka.*` for client settings; those of TLS
    and SASL by the Java client's names or librdkafka's).
    """
    topics = [topic] if isinstance(topic, str) else list(topic)
    _check_arguments(topics, key=key, value=value, on_bad=on_bad)
    client = librdkafka_options(options)
    counts = partition_counts(bootstrap, topics, client)
    connector = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": ",".join(topics),
        "includeHeaders": "true",
        # What a transaction wrote and then took back is no input.
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": str(fail_on_data_loss).lower(),
        **({"maxOffsetsPerTrigger": str(max_offsets_per_trigger)} if max_offsets_per_trigger else {}),
        **connector_options(options),
    }
    encoding = _Encoding(format=value, schema=schema, message=message, registry=registry)
    if value == "json" and schema is None:
        encoding = _Encoding(format=value, schema=infer_schema(spark, topics, connector), message=None, registry=None)
    bounds = start_options(start, topics, counts)
    if not stream:
        bounds |= end_options(end, topics, counts)
    reader = (spark.readStream if stream else spark.read).format("kafka").options(**connector, **bounds)
    parsed, has_reason = _parse(reader.load(), key, encoding, topics)
    if not has_reason:
        return parsed.select(*_COLUMNS)
    if on_bad == "fail":
        return _stop_at_bad(parsed).select(*_COLUMNS)
    if on_bad == "skip":
        return parsed.where(f"{_REASON} IS NULL").select(*_COLUMNS)
    letters = dead_letter_topic or _default_letters(topics)
    ensure_topic(bootstrap, letters, 1, client)
    return _divert(parsed, letters, bootstrap, client).select(*_COLUMNS)


def infer_schema(spark: SparkSession, topics: Sequence[str], connector: Mapping[str, str]) -> StructType:
    """The schema of the first records of a topic that are JSON objects, printed so that it can be written down."""
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col("value").cast("string")
    sample = spark.read.format("kafka").options(**connector).load().limit(SAMPLE_RECORDS_MAX)
    variants = sample.select(F.try_parse_json(text).alias("v")).where("schema_of_variant(v) LIKE 'OBJECT%'")
    found, count = variants.agg(F.schema_of_variant_agg("v"), F.count("*")).collect()[0]
    names = ", ".join(topics)
    if not found or not found.startswith("OBJECT<"):
        raise PipelineError(f"no schema can be inferred for {names}: no record there is a JSON object; give schema=")
    fields = found.removeprefix("OBJECT<").removesuffix(">").replace("OBJECT<", "STRUCT<")
    # Numbers with a fraction are floating point; fields of many types, or null so far, are text.
    fields = re.sub(r"\bVARIANT\b|\bVOID\b", "STRING", re.sub(r"DECIMAL\(\d+,\d+\)", "DOUBLE", fields))
    schema = formats.struct_schema(fields, "inferred")
    print(f"schema of {names}, from {count} records: {formats.ddl(schema)}", file=sys.stderr)
    return schema


def _check_arguments(topics: Sequence[str], *, key: str, value: str, on_bad: str) -> None:
    if not topics:
        raise PipelineError("no topic is named")
    formats.check_format(value, "value")
    if key not in ("bytes", "text"):
        raise PipelineError(f"key={key!r}: a key is read as bytes or text")
    if on_bad not in ("dead-letter", "fail", "skip"):
        raise PipelineError(f"on_bad={on_bad!r}: use 'dead-letter', 'fail' or 'skip'")


def _default_letters(topics: Sequence[str]) -> str:
    if len(topics) > 1:
        raise PipelineError("with several topics, dead_letter_topic= must name one topic for their bad records")
    return f"{topics[0]}.dead-letters"


def _parse(df: DataFrame, key: str, encoding: _Encoding, topics: Sequence[str]) -> tuple[DataFrame, bool]:
    """The frame with parsed key and value, and with the raw bytes and the reason beside them if anything can be bad."""
    from pyspark.sql import functions as F  # noqa: N812

    values = _decode(df.sparkSession, F.col("value"), encoding, topics)
    # A text key that is not UTF-8 is rare and cheap to look at twice, so keys need no step of their own.
    keys, key_reason = F.col("key"), None
    if key == "text":
        keys = keys.cast("string")
        key_reason = F.when(keys.isNotNull() & ~F.is_valid_utf8(keys), F.lit("key: not UTF-8"))
    value_reason = None if values.reason is None else F.concat(F.lit("value: "), values.reason)
    reasons = [reason for reason in (value_reason, key_reason) if reason is not None]
    rest = [F.col(name) for name in _COLUMNS if name not in ("key", "value")]
    columns = [keys.alias("key"), values.value.alias("value"), *rest]
    staged = formats.with_parsed(df, values)
    if not reasons:
        return staged.select(*columns), False
    raw = [F.col("key").alias(f"{_RAW}key"), F.col("value").alias(f"{_RAW}value")]
    # Not deterministic for Spark, which would otherwise put a filter on it below the parser and parse everything twice.
    reason = F.when(F.spark_partition_id() >= 0, F.coalesce(*reasons))
    return staged.select(*columns, *raw, reason.alias(_REASON)), True


def _decode(spark: SparkSession, data: Column, encoding: _Encoding, topics: Sequence[str]) -> Decoded:
    name, schema = encoding.format, encoding.schema
    if name == "bytes":
        return formats.decode_bytes(data)
    if name == "text":
        return formats.decode_text(data)
    if name in ("json", "csv"):
        fields = formats.struct_schema(_required(schema, name), name)
        return formats.decode_json(data, fields) if name == "json" else formats.decode_csv(data, fields)
    if name in ("registry-avro", "registry-protobuf"):
        return _decode_registered(data, encoding, topics)
    if name == "protobuf":
        if encoding.message is None:
            raise PipelineError("value='protobuf' needs message=, the name of the message in the descriptor file")
        described = protobuf_format.read_descriptor(_text(schema, name))
        return protobuf_format.decode_protobuf(spark, data, described, encoding.message)
    return formats.decode_avro(data, _text(schema, name))


def _decode_registered(data: Column, encoding: _Encoding, topics: Sequence[str]) -> Decoded:
    name, schema = encoding.format, encoding.schema
    if encoding.registry is None or len(topics) != 1:
        raise PipelineError(f"value={name!r} needs registry=URL and a single topic")
    subject = f"{topics[0]}-value"
    if name == "registry-avro":
        writers = subject_schemas(encoding.registry, subject)
        reader = writers[max(writers)] if schema is None else _text(schema, name)
        return formats.decode_registry_avro(data, writers, reader, subject)
    from tidelog.pipelines.protobuf_registry import known_messages

    known = known_messages(encoding.registry, subject)
    described, message = known.described, encoding.message or known.first
    if schema is not None:
        described = protobuf_format.read_descriptor(_text(schema, name))
    return protobuf_format.decode_framed_protobuf(data, described, message, known.writers, subject)


def _required(schema: Any, name: str) -> Any:
    if schema is None:
        raise PipelineError(f"value={name!r} needs schema=")
    return schema


def _text(schema: StructType | str | None, name: str) -> str:
    if not isinstance(_required(schema, name), str):
        raise PipelineError(f"value={name!r}: schema= is a text, not a {type(schema).__name__}")
    return str(schema)


def _stop_at_bad(df: DataFrame) -> DataFrame:
    """Stops the query at the first bad record, with its place."""
    from pyspark.sql import functions as F  # noqa: N812

    text = "bad record in topic %s, partition %d, offset %d: %s"
    place = F.format_string(text, "topic", "partition", "offset", _REASON)
    # The filter keeps every row: it is there so that no later step can leave the check out.
    return df.where(F.when(F.col(_REASON).isNotNull(), F.raise_error(place).cast("boolean")).otherwise(True))


def _divert(df: DataFrame, letters: str, bootstrap: str, client: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return divert(
        df,
        F.col(_REASON),
        topic=letters,
        bootstrap=bootstrap,
        key=F.col(f"{_RAW}key"),
        value=F.col(f"{_RAW}value"),
        options=client,
    )
