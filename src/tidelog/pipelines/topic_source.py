"""`read_topic()`: a topic as a DataFrame, batch or streaming, through Spark's own Kafka connector.

Columns: `key`, `value` (parsed: a struct for JSON, CSV, Avro, Protobuf; text; or bytes), `headers` (array of key and
value), `topic`, `partition`, `offset`, `timestamp`. A null value (a tombstone) stays null and is not an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Position = str | int | datetime | Mapping[int, int] | Mapping[str, Mapping[int, int]]
"""Where to start or end: "earliest", "latest", a time, an offset per partition, or that per topic.

A time is a datetime (naive means UTC), an ISO 8601 text, or milliseconds since 1970."""


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

    `value` and `key` name a format: bytes, text, json, csv, avro, protobuf, registry-avro. `schema` is DDL text or a
    StructType (json, csv), an Avro schema as JSON text (avro), or the path of a descriptor file (protobuf, with the
    `message` name); without one JSON is inferred from a sample of the topic, and printed to standard error.
    `registry` is the URL of a schema registry, for registry-avro.

    A record that cannot be parsed goes to `dead_letter_topic` (default `<topic>.dead-letters`) or, with
    on_bad="fail", stops the query with its topic, partition and offset;
    on_bad="skip" leaves it out, for a query beside one that sends it. Records that retention or a deleted topic
    took away before they were read stop the query unless `fail_on_data_loss` is False. `start` counts for a new query
    only: a checkpoint knows better. `end` is for batch reads. `options` are the connector's own (`kafka.*` for client
    settings).
    """
    raise NotImplementedError
