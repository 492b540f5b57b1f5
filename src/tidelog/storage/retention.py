"""Which old segments a log may drop: by age, by size, and because DeleteRecords moved the start of the log.

Kafka's rules: only whole segments, from the oldest on, and only below the high watermark. Age is that of a segment's
newest record (of its file, when no record has a timestamp). If even the active segment is too old, the log goes on in
a new one first. A log that is only compacted drops nothing but what lies below its start.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from tidelog.storage.errors import StorageFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.storage.log import Log
    from tidelog.storage.segment import Segment

UNBOUNDED = -1

logger = logging.getLogger("tidelog.storage")


class RetentionResult(NamedTuple):
    segments: int
    size_bytes: int


def apply_retention(log: Log, high_watermark: int, now_ms: int) -> RetentionResult:
    """Drop what the log's configuration does not keep. On the owner's thread; files of dropped segments are unlinked,
    and a reader keeps its segment until it is done."""
    segments, size_bytes = _drop(log, high_watermark, _below_log_start(log), "it is below the start of the log")
    config = log.config
    if config.is_deleted_by_retention:
        rules: list[tuple[Callable[[Segment], bool], str]] = []
        if config.retention_bytes >= 0:
            rules.append((_beyond_size(log, config.retention_bytes), f"retention.bytes={config.retention_bytes}"))
        if config.retention_ms >= 0:
            rules.append((_beyond_age(now_ms - config.retention_ms), f"retention.ms={config.retention_ms}"))
        for is_deletable, reason in rules:
            more = _drop(log, high_watermark, is_deletable, reason)
            segments += more.segments
            size_bytes += more.size_bytes
    return RetentionResult(segments, size_bytes)


def _drop(log: Log, high_watermark: int, is_deletable: Callable[[Segment], bool], reason: str) -> RetentionResult:
    count = 0
    for segment in log.segments:
        is_active = segment is log.active_segment
        end = log.log_end_offset if is_active else log.segments[count + 1].base_offset
        if end > high_watermark or (is_active and segment.size == 0) or not is_deletable(segment):
            break
        count += 1
    if count == 0:
        return RetentionResult(0, 0)
    if count == len(log.segments):
        # The log must go on somewhere; the new segment begins where the old one ends.
        try:
            log.writer.roll()
        except StorageFailure:
            # The disk may be full: what can go makes room.
            if count == 1:
                raise
            count -= 1
    size_bytes = log.rearranger.delete_oldest(count)
    logger.info(
        "%s: dropped %d segments (%d bytes), now begins at offset %d: %s",
        log.topic_partition,
        count,
        size_bytes,
        log.log_start_offset,
        reason,
    )
    return RetentionResult(count, size_bytes)


def _below_log_start(log: Log) -> Callable[[Segment], bool]:
    def is_deletable(segment: Segment) -> bool:
        following = log.segments.index(segment) + 1
        return following < len(log.segments) and log.segments[following].base_offset <= log.log_start_offset

    return is_deletable


def _beyond_size(log: Log, retention_bytes: int) -> Callable[[Segment], bool]:
    excess = log.size_bytes - retention_bytes

    def is_deletable(segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return is_deletable


def _beyond_age(oldest_ms: int) -> Callable[[Segment], bool]:
    def is_deletable(segment: Segment) -> bool:
        newest_ms = segment.largest_timestamp()
        if newest_ms < 0:
            newest_ms = int(os.stat(segment.path).st_mtime * 1000)
        return newest_ms < oldest_ms

    return is_deletable
