"""Records that cannot be used leave the stream for a dead-letter topic, with the reason and their origin in headers.

`divert` does it inside the task that found the record: written and acknowledged before the task ends, and so before
the batch counts as done. A batch or task that runs again writes its dead letters again (at least once); topic,
partition and offset in the headers tell a copy from a second record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.broker import LARGE_RECORDS, client_settings

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

SENDER = "tidelog_dead_letters"
"""Name of the Python function that sends dead letters, in Spark's plans."""
_KEPT = "__tidelog_kept"


def divert(
    df: DataFrame,
    reason: Column,
    *,
    topic: str,
    bootstrap: str,
    key: Column | None = None,
    value: Column | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """`df` without the rows whose `reason` is not null; those go to the dead-letter topic.

    `key` and `value` are what the dead letter holds (default: the columns `key` and `value` if they are binary or text,
    else no key and the whole row as JSON). The columns `topic`, `partition`, `offset` and `timestamp`, where `df` has
    them, become headers, and its `headers` are kept. `options` are further librdkafka settings of the producer.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from tidelog.pipelines.letter_writer import letter_sender

    plain = {field.name for field in df.schema.fields if field.dataType.typeName() in ("binary", "string")}
    if key is None:
        key = F.col("key") if "key" in plain else F.lit(None)
    if value is None:
        value = F.col("value") if "value" in plain else F.to_json(F.struct("*"))
    letter = F.struct(
        key.cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        _headers(df, reason).alias("headers"),
    )
    # Not deterministic, so that Spark neither runs it twice nor moves it behind a filter that would hide bad records.
    sender = letter_sender(topic, letter_settings(bootstrap, options))
    sender.__name__ = SENDER
    send = F.arrow_udf(sender, "boolean").asNondeterministic()
    return df.withColumn(_KEPT, send(F.when(reason.isNotNull(), letter))).where(_KEPT).drop(_KEPT)


def letter_settings(bootstrap: str, options: Mapping[str, str] | None = None) -> dict[str, Any]:
    """librdkafka settings of the producers."""
    return client_settings(bootstrap, {"enable.idempotence": "true", **LARGE_RECORDS, **(options or {})})


def _headers(df: DataFrame, reason: Column) -> Column:
    """The record's own headers, then reason and origin."""
    from pyspark.sql import functions as F  # noqa: N812

    types = {field.name: field.dataType.typeName() for field in df.schema.fields}
    texts = [(REASON, reason)]
    for name, header in ORIGIN.items():
        if name in types:
            column = F.unix_millis(name) if types[name] == "timestamp" else F.col(name)
            texts.append((header, column))
    added = F.array(
        *(F.struct(F.lit(name).alias("key"), text.cast("string").cast("binary").alias("value")) for name, text in texts)
    )
    if types.get("headers") == "array":
        own = F.coalesce(F.col("headers"), F.array().cast("array<struct<key:string,value:binary>>"))
        return F.concat(own, added)
    return added
