"""`write_topic()`: a DataFrame into a topic, batch or streaming, exactly once or at least once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import StreamingQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWrite:
    """What a batch write did. `rows` is None where the plain sink wrote, which does not count."""

    topic: str
    rows: int | None
    rows_skipped: int = 0
    """Rows that an earlier run of the same write had committed already."""


def write_topic(
    df: DataFrame,
    topic: str,
    *,
    bootstrap: str,
    key: str | Column | Sequence[str] | None = None,
    value: str | Column | Sequence[str] | None = None,
    headers: str | Column | Mapping[str, str] | None = None,
    timestamp: str | Column | None = None,
    partition: str | Column | None = None,
    delivery: str = "exactly-once",
    partitioner: str = "murmur2",
    order_by: Sequence[str] | None = None,
    checkpoint: str | None = None,
    trigger: str | None = None,
    output_mode: str = "append",
    name: str | None = None,
    options: Mapping[str, str] | None = None,
) -> TopicWrite | StreamingQuery:
    """Write rows as records: a batch returns what was written, a stream the running query.

    `key` and `value` are a column (text and bytes as they are, everything else as JSON) or a list of columns (one
    JSON object); by default the columns `key` and `value` if there are such, else no key and the whole row as one
    JSON object. A null value is a tombstone. `headers` is an array of key and value (default: the column `headers` if
    there is one) or fixed texts. `partition` names the target partition, else the `partitioner` does (murmur2, fnv1a,
    crc32: the one the topic's other producers use); rows without a key are spread by their value. Rows of a target
    partition are written in the order of `order_by` (default: `topic`, `partition`, `offset` if the frame has them).

    delivery="exactly-once" needs a `checkpoint` for a stream; a batch with one can be run again after a crash and
    writes only what is missing. "at-least-once" is the connector's plain sink. `trigger`: None (as fast as possible),
    "available-now", an interval ("10 seconds"), or "continuous 1 second" (at-least-once only). `output_mode`: append,
    or update and complete for aggregations without a watermark. `options` are
    librdkafka settings (exactly-once) or the connector's (at-least-once).
    """
    raise NotImplementedError
