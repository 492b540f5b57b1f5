"""`read_topic()`: a topic as a DataFrame, batch or streaming, through Spark's own Kafka connector.

Columns: `key`, `value` (each parsed: a struct for JSON, CSV, Avro, Protobuf; text; or bytes), `headers` (array of key
and value), `topic`, `partition`, `offset`, `timestamp`. A null key or value (a tombstone) stays null and is no error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.formats import decoders, protobuf_format
from tidelog.pipelines.formats.decoders import Decoded
from tidelog.pipelines.formats.registry import subject_schemas
from tidelog.pipelines.topics.broker import connector_options, ensure_topic, librdkafka_options, partition_counts
from tidelog.pipelines.topics.dead_letters import divert
from tidelog.pipelines.topics.original_records import FIELDS, RECORD, record_column
from tidelog.pipelines.topics.positions import Position, end_options, start_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

SAMPLE_RECORDS_MAX = 1000
"""How many records a schema is inferred from."""
BAD = "tidelog_bad_"
"""Names of observations that count records which cannot be parsed begin with this."""
_KEY = "__tidelog_key"
_KEY_REASON = "__tidelog_key_reason"
_REASON = "__tidelog_reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """How the keys or the values of a topic are to be read."""

    name: str
    """key or value."""
    format: str
    schema: StructType | str | None
    message: str | None
    registry: str | None

    def argument(self, name: str) -> str:
        """What `read_topic` calls one of these."""
        return f"key_{name}=" if self.name == "key" else f"{name}="

    def required_schema(self) -> StructType | str:
        if self.schema is None:
            raise PipelineError(f"{self.name}={self.format!r} needs {self.argument('schema')}")
        return self.schema

    def schema_text(self) -> str:
        schema = self.required_schema()
        if not isinstance(schema, str):
            kind = type(schema).__name__
            raise PipelineError(f"{self.name}={self.format!r}: {self.argument('schema')} is a text, not a {kind}")
        return schema


def read_topic(
    spark: SparkSession,
    topic: str | Sequence[str],
    *,
    bootstrap: str,
    value: str = "json",
    schema: StructType | str | None = None,
    key: str = "text",
    key_schema: StructType | str | None = None,
    message: str | None = None,
    key_message: str | None = None,
    registry: str | None = None,
    stream: bool = False,
    start: Position = "earliest",
    end: Position = "latest",
    on_bad: str = "dead-letter",
    dead_letter_topic: str | None = None,
    fail_on_data_loss: bool = True,
    max_offsets_per_trigger: int | None = None,
    options: Mapping[str, str] | None = None,
    keep_record: bool = False,
    observe: str | None = None,
) -> DataFrame:
    """The records of one topic or several, parsed.

    `value` and `key` name a format: bytes, text, json, csv, avro, protobuf, registry-avro, registry-protobuf. `schema`
    is DDL text or a StructType (json, csv), an Avro schema as JSON text, or the path of a Protobuf descriptor file with
    the `message` name; without one JSON is inferred from a sample of the topic, and printed to standard error.
    `registry` is the URL of a schema registry (its subjects are `<topic>-value` and `<topic>-key`); there `schema` is
    what to read as, by default the newest version, and `message` by default the first one in it. `key_schema` and
    `key_message` say the same of keys.

    A record that cannot be parsed goes to `dead_letter_topic` (default `<topic>.dead-letters`, made if it is not
    there) or, with on_bad="fail", stops the query with its topic, partition and offset; on_bad="skip" leaves it out,
    for a query beside one that sends it. Records that retention or a deleted topic took away before they were read
    stop the query unless `fail_on_data_loss` is False. `start` counts for a new query only: a checkpoint knows
    better. `end` is for batch reads. `options` are the connector's own (`kafka.*` for client settings; those of TLS
    and SASL by the Java client's names or librdkafka's). `keep_record` adds a column with the record as it was read,
    for `divert` where it cannot find it (Spark Connect); `observe` names the observations of a stream that count bad
    records and dead letters.
    """
    topics = [topic] if isinstance(topic, str) else list(topic)
    _check_arguments(topics, key=key, value=value, on_bad=on_bad)
    client = librdkafka_options(options)
    counts = partition_counts(bootstrap, topics, client)
    connector = _connector(bootstrap, topics, fail_on_data_loss, max_offsets_per_trigger, options)
    keys = _Part(name="key", format=key, schema=key_schema, message=key_message, registry=registry)
    values = _Part(name="value", format=value, schema=schema, message=message, registry=registry)
    keys, values = (_with_schema(part, spark, topics, connector) for part in (keys, values))
    bounds = start_options(start, topics, counts)
    if not stream:
        bounds |= end_options(end, topics, counts)
    reader = (spark.readStream if stream else spark.read).format("kafka").options(**connector, **bounds)
    parsed, has_reason = _parse(reader.load(), keys, values, topics)
    if has_reason and observe is not None:
        parsed = _count_bad(parsed, observe)
    if has_reason and on_bad == "fail":
        parsed = _stop_at_bad(parsed)
    elif has_reason and on_bad == "skip":
        parsed = parsed.where(f"{_REASON} IS NULL")
    elif has_reason:
        letters = dead_letter_topic or _default_letters(topics)
        ensure_topic(bootstrap, letters, 1, client)
        bad = parsed[_REASON]
        parsed = divert(parsed, bad, topic=letters, bootstrap=bootstrap, options=client, observe=observe)
    return parsed.select(*FIELDS, *([RECORD] if keep_record else []))


def _connector(
    bootstrap: str,
    topics: Sequence[str],
    fail_on_data_loss: bool,
    max_offsets_per_trigger: int | None,
    options: Mapping[str, str] | None,
) -> dict[str, str]:
    """Options of Spark's connector."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": ",".join(topics),
        "includeHeaders": "true",
        # What a transaction wrote and then took back is no input.
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": str(fail_on_data_loss).lower(),
        **({"maxOffsetsPerTrigger": str(max_offsets_per_trigger)} if max_offsets_per_trigger else {}),
        **connector_options(options),
    }


def _count_bad(df: DataFrame, name: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return df.observe(f"{BAD}{name}", F.count(_REASON).alias("bad"))


def _with_schema(part: _Part, spark: SparkSession, topics: Sequence[str], connector: Mapping[str, str]) -> _Part:
    if part.format != "json" or part.schema is not None:
        return part
    return replace(part, schema=infer_schema(spark, topics, connector, part.name))


def infer_schema(
    spark: SparkSession, topics: Sequence[str], connector: Mapping[str, str], part: str = "value"
) -> StructType:
    """The schema of the first records of a topic that are JSON objects, printed so that it can be written down."""
    from pyspark.sql import functions as F  # noqa: N812

    text = F.col(part).cast("string")
    sample = spark.read.format("kafka").options(**connector).load().limit(SAMPLE_RECORDS_MAX)
    variants = sample.select(F.try_parse_json(text).alias("v")).where("schema_of_variant(v) LIKE 'OBJECT%'")
    found, count = variants.agg(F.schema_of_variant_agg("v"), F.count("*")).collect()[0]
    names, given = ", ".join(topics), "schema="
    if part == "key":
        names, given = f"the keys of {names}", "key_schema="
    if not found or not found.startswith("OBJECT<"):
        raise PipelineError(f"no schema can be inferred for {names}: no record there is a JSON object; give {given}")
    fields = found.removeprefix("OBJECT<").removesuffix(">").replace("OBJECT<", "STRUCT<")
    # Numbers with a fraction are floating point; fields of many types, or null so far, are text.
    fields = re.sub(r"\bVARIANT\b|\bVOID\b", "STRING", re.sub(r"DECIMAL\(\d+,\d+\)", "DOUBLE", fields))
    schema = decoders.struct_schema(fields, "inferred")
    print(f"schema of {names}, from {count} records: {decoders.ddl(schema)}", file=sys.stderr)
    return schema


def _check_arguments(topics: Sequence[str], *, key: str, value: str, on_bad: str) -> None:
    if not topics:
        raise PipelineError("no topic is named")
    decoders.check_format(value, "value")
    decoders.check_format(key, "key")
    if on_bad not in ("dead-letter", "fail", "skip"):
        raise PipelineError(f"on_bad={on_bad!r}: use 'dead-letter', 'fail' or 'skip'")


def _default_letters(topics: Sequence[str]) -> str:
    if len(topics) > 1:
        raise PipelineError("with several topics, dead_letter_topic= must name one topic for their bad records")
    return f"{topics[0]}.dead-letters"


def _parse(df: DataFrame, key: _Part, value: _Part, topics: Sequence[str]) -> tuple[DataFrame, bool]:
    """The frame with parsed key and value, with the record beside them, and with the reason if anything can be bad."""
    from pyspark.sql import functions as F  # noqa: N812

    df, keys, key_reason = _parse_keys(df, key, topics)
    values = _decode(df.sparkSession, F.col("value"), value, topics)
    value_reason = None if values.reason is None else F.concat(F.lit("value: "), values.reason)
    reasons = [reason for reason in (value_reason, key_reason) if reason is not None]
    rest = [F.col(name) for name in FIELDS if name not in ("key", "value")]
    columns = [keys.alias("key"), values.value.alias("value"), *rest, record_column()]
    staged = decoders.with_parsed(df, values)
    if not reasons:
        return staged.select(*columns), False
    # Not deterministic for Spark, which would otherwise put a filter on it below the parser and parse everything twice.
    reason = F.when(F.spark_partition_id() >= 0, F.coalesce(*reasons))
    return staged.select(*columns, reason.alias(_REASON)), True


def _parse_keys(df: DataFrame, part: _Part, topics: Sequence[str]) -> tuple[DataFrame, Column, Column | None]:
    """The frame with what the parsed key and its reason are made of, and those two."""
    from pyspark.sql import functions as F  # noqa: N812

    key = F.col("key")
    if part.format == "bytes":
        return df, key, None
    if part.format == "text":
        # One that is not UTF-8 is rare and cheap to look at twice, so these keys need no step of their own.
        text = key.cast("string")
        return df, text, F.when(text.isNotNull() & ~F.is_valid_utf8(text), F.lit("key: not UTF-8"))
    decoded = _decode(df.sparkSession, key, part, topics)
    assert decoded.reason is not None, "a format that takes any bytes"
    reason = F.concat(F.lit("key: "), decoded.reason)
    staged = decoders.with_parsed(df, decoded).withColumns({_KEY: decoded.value, _KEY_REASON: reason})
    return staged.drop(decoders.PARSED), F.col(_KEY), F.col(_KEY_REASON)


def _decode(spark: SparkSession, data: Column, part: _Part, topics: Sequence[str]) -> Decoded:
    if part.format == "bytes":
        return decoders.decode_bytes(data)
    if part.format == "text":
        return decoders.decode_text(data)
    if part.format in ("json", "csv"):
        role = part.format if part.name == "value" else f"key {part.format}"
        fields = decoders.struct_schema(part.required_schema(), role)
        return decoders.decode_json(data, fields) if part.format == "json" else decoders.decode_csv(data, fields)
    if part.format in ("registry-avro", "registry-protobuf"):
        return _decode_registered(data, part, topics)
    if part.format == "protobuf":
        if part.message is None:
            needed = f"{part.argument('message')}, the name of the message in the descriptor file"
            raise PipelineError(f"{part.name}='protobuf' needs {needed}")
        described = protobuf_format.read_descriptor(part.schema_text())
        return protobuf_format.decode_protobuf(spark, data, described, part.message)
    return decoders.decode_avro(data, part.schema_text())


def _decode_registered(data: Column, part: _Part, topics: Sequence[str]) -> Decoded:
    if part.registry is None or len(topics) != 1:
        raise PipelineError(f"{part.name}={part.format!r} needs registry=URL and a single topic")
    subject = f"{topics[0]}-{part.name}"
    if part.format == "registry-avro":
        writers = subject_schemas(part.registry, subject)
        reader = writers[max(writers)] if part.schema is None else part.schema_text()
        return decoders.decode_registry_avro(data, writers, reader, subject)
    from tidelog.pipelines.formats.protobuf_registry import known_messages

    known = known_messages(part.registry, subject)
    described, message = known.described, part.message or known.first
    if part.schema is not None:
        described = protobuf_format.read_descriptor(part.schema_text())
    return protobuf_format.decode_framed_protobuf(data, described, message, known.writers, subject)


def _stop_at_bad(df: DataFrame) -> DataFrame:
    """Stops the query at the first bad record, with its place."""
    from pyspark.sql import functions as F  # noqa: N812

    text = "bad record in topic %s, partition %d, offset %d: %s"
    place = F.format_string(text, "topic", "partition", "offset", _REASON)
    # The filter keeps every row: it is there so that no later step can leave the check out.
    return df.where(F.when(F.col(_REASON).isNotNull(), F.raise_error(place).cast("boolean")).otherwise(True))
