"""Records that cannot be used leave the stream for a dead-letter topic, with the reason and their origin in headers.

`divert` does it inside the task that found the record: written and acknowledged before the task ends, and so before
the batch counts as done. A batch or task that runs again writes its dead letters again (at least once); topic,
partition and offset in the headers tell a copy from a second record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REASON = "tidelog.dead-letter.reason"
TOPIC = "tidelog.dead-letter.topic"
PARTITION = "tidelog.dead-letter.partition"
OFFSET = "tidelog.dead-letter.offset"
TIMESTAMP = "tidelog.dead-letter.timestamp"
"""Headers of a dead letter: why, and where it came from (timestamp in milliseconds)."""


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

    `key` and `value` are what the dead letter holds (default: the columns `key` and `value` if they are binary or
    text, else the whole row as JSON). Columns `topic`, `partition`, `offset`, `timestamp` and `headers`, where `df`
    has them, become headers. `options` are further librdkafka settings of the producer.
    """
    raise NotImplementedError
