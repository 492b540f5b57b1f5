"""The faults of the disk, by what the owner of a log may still do.

StorageFailure: this operation did not happen; the log is as it was and may be used on. CorruptLog: bytes that were
promised are damaged; the partition must go offline. CorruptIndex and CorruptSnapshot never leave `storage`: what they
name is derived from the log and is made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from tidelog.model.ids import TopicPartition


class StorageFailure(BrokerError):
    """The disk refused (full, read error, gone). Nothing changed; the same call may succeed later."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class CorruptLog(BrokerError):
    """A batch that cannot be what was written, at a place that no crash explains."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class CorruptIndex(Exception):
    """An index that does not fit its log; rebuilt from the log."""


class CorruptSnapshot(Exception):
    """A producer snapshot that cannot be read; an older one and the log take its place."""


def offset_out_of_range(topic_partition: TopicPartition, offset: int, start: int, end: int) -> BrokerError:
    return BrokerError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"Offset {offset} of {topic_partition} is outside the log, which holds [{start}, {end}).",
    )
