"""Records that cannot be used leave the stream for a dead-letter topic, with the reason and their origin in headers.

A dead letter is the record itself, byte for byte: what was made of it meanwhile does not matter, so that it can be
repaired and sent again. A row that was made from several records, or from none, goes there as JSON.

`divert` does it inside the task that found the record: written and acknowledged before the task ends, and so before
the batch counts as done. A batch or task that runs again writes its dead letters again (at least once); topic,
partition and offset in the headers tell a copy from a second record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.topics.broker import LARGE_RECORDS, client_settings
from tidelog.pipelines.topics.original_records import RECORD, with_record

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REASON = "tidelog.dead-letter.reason"
ORIGIN = {
    "topic": "tidelog.dead-letter.topic",
    "partition": "tidelog.dead-letter.partition",
    "offset": "tidelog.dead-letter.offset",
    "timestamp": "tidelog.dead-letter.timestamp",
}
"""Headers of a dead letter, all text: why, and where it came from (the timestamp in milliseconds since 1970)."""

CONTENT = "tidelog.dead-letter.content"
"""Header that says what the dead letter holds: `record`, the bytes that were read, or `row`, made from columns."""

SENDER = "tidelog_dead_letters"
"""Name of the Python function that sends dead letters, in Spark's plans."""
LETTERS = "tidelog_letters_"
"""Names of observations that count dead letters begin with this; a metric is named after the topic they go to."""
_KEPT = "__tidelog_kept"
_HEADERS = "array<struct<key:string,value:binary>>"
_TOLD_ELSEWHERE = frozenset({"key", "value", "headers", "timestampType", *ORIGIN})
"""Columns that a dead letter has a place for, beside its value."""


def divert(
    df: DataFrame,
    reason: Column,
    *,
    topic: str,
    bootstrap: str,
    key: Column | None = None,
    value: Column | None = None,
    options: Mapping[str, str] | None = None,
    observe: str | None = None,
) -> DataFrame:
    """`df` without the rows whose `reason` is not null; those go to the dead-letter topic.

    The dead letter is the record that the row was made from, with its key, value and headers as they were read, where
    `df` comes from `read_topic` by steps that leave it one record per row. Else it is made from the columns: `key` and
    `value` if they are bytes or text and all there is, else no key and the whole row as JSON; arguments `key` and
    `value` say it otherwise. Topic, partition, offset and timestamp, where they are known, become headers. `options`
    are further librdkafka settings of the producer. `observe` names the observation of a stream that counts them.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from tidelog.pipelines.topics.letter_writer import letter_sender

    columns = df.columns
    found = with_record(df) if key is None and value is None else None
    if found is not None:
        df, letter = found, _record_letter(reason)
    else:
        letter = _row_letter(df, reason, key, value)
    if observe is not None:
        df = df.observe(f"{LETTERS}{observe}", F.count(F.when(reason.isNotNull(), 1)).alias(topic))
    # Not deterministic, so that Spark neither runs it twice nor moves it behind a filter that would hide bad records.
    sender = letter_sender(topic, letter_settings(bootstrap, options))
    sender.__name__ = SENDER
    send = F.arrow_udf(sender, "boolean").asNondeterministic()
    kept = df.withColumn(_KEPT, send(F.when(reason.isNotNull(), letter))).where(_KEPT)
    return kept.drop(_KEPT) if RECORD in columns else kept.drop(_KEPT, RECORD)


def letter_settings(bootstrap: str, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """librdkafka settings of the producers."""
    return client_settings(bootstrap, {"enable.idempotence": "true", **LARGE_RECORDS, **(options or {})})


def _record_letter(reason: Column) -> Column:
    """The record as it was read, and why it is here."""
    from pyspark.sql import functions as F  # noqa: N812

    record = F.col(RECORD)
    origin = {name: record[name] for name in ORIGIN}
    origin["timestamp"] = F.unix_millis(origin["timestamp"])
    own = F.coalesce(record["headers"], F.array().cast(_HEADERS))
    return F.struct(
        record["key"].alias("key"),
        record["value"].alias("value"),
        F.concat(own, _added_headers(reason, "record", origin)).alias("headers"),
    )


def _row_letter(df: DataFrame, reason: Column, key: Column | None, value: Column | None) -> Column:
    """What the columns of the row say."""
    from pyspark.sql import functions as F  # noqa: N812

    types = {field.name: field.dataType.typeName() for field in df.schema.fields}
    plain = {name for name, kind in types.items() if kind in ("binary", "string")}
    if value is None and "value" in plain and types.keys() <= _TOLD_ELSEWHERE:
        value = F.col("value")
    elif value is None:
        value = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    if key is None:
        key = F.col("key") if "key" in plain else F.lit(None)
    origin = {name: F.col(name) for name in ORIGIN if name in types}
    if types.get("timestamp") == "timestamp":
        origin["timestamp"] = F.unix_millis(origin["timestamp"])
    headers = _added_headers(reason, "row", origin)
    if types.get("headers") == "array":
        headers = F.concat(F.coalesce(F.col("headers"), F.array().cast(_HEADERS)), headers)
    return F.struct(key.cast("binary").alias("key"), value.cast("binary").alias("value"), headers.alias("headers"))


def _added_headers(reason: Column, content: str, origin: Mapping[str, Column]) -> Column:
    """Reason, content and origin; they follow the record's own headers."""
    from pyspark.sql import functions as F  # noqa: N812

    texts = [(REASON, reason), (CONTENT, F.lit(content)), *((ORIGIN[name], column) for name, column in origin.items())]
    return F.array(
        *(F.struct(F.lit(name).alias("key"), text.cast("string").cast("binary").alias("value")) for name, text in texts)
    )
