"""Compaction of a log, seen by its owner: whether it is worth it, what a pass may touch, and taking its result over.

A pass has three steps. `plan_compaction` (owner's thread) copies everything the pass needs to know. `run_pass` (any
thread, see `storage.compaction_pass`) reads closed segments, which never change, and writes `.cleaned` files.
`finish_compaction` (owner's thread) swaps the files in, unless the log was cut or shortened in the meantime.
The active segment and whatever is above the last stable offset are never touched.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from tidelog.records.batch import HEADER_SIZE, CorruptBatch, decode_header
from tidelog.storage.errors import CorruptLog
from tidelog.storage.scan import RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.runtime.disk import Folder
    from tidelog.storage.compaction_pass import CompactionResult
    from tidelog.storage.log import Log
    from tidelog.storage.segment import Segment
    from tidelog.storage.txn_index import AbortedTransaction


class CleanableRange(NamedTuple):
    """The part of a log that compaction may look at, in offsets and bytes."""

    first_dirty_offset: int
    """Everything below was compacted before."""
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    oldest_dirty_ms: int
    """The timestamp of the oldest uncompacted batch; -1 when there is none."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


class ProducerTail(NamedTuple):
    """What must survive of a producer so that duplicates are still recognised: its last batch or its last epoch."""

    last_offset: int
    """Of its last data batch; -1 when only a marker is known."""
    epoch: int


class SourceSegment(NamedTuple):
    base_offset: int
    path: str
    size: int
    modified_ns: int


class CompactionPlan(NamedTuple):
    """All a pass may know of the log; a copy, so that the owner goes on appending."""

    folder: Folder
    groups: tuple[tuple[SourceSegment, ...], ...]
    """Neighbouring segments that become one."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    aborted: tuple[AbortedTransaction, ...]
    """By first offset."""
    producers: dict[int, ProducerTail]
    now_ms: int
    delete_retention_ms: int
    index_interval_bytes: int


def find_cleanable(log: Log, cleaner_offset: int, last_stable_offset: int, now_ms: int) -> CleanableRange:
    """`cleaner_offset`: how far earlier passes came; what does not fit the log (it was cut) counts as nothing."""
    segments = log.segments
    first_dirty = (
        cleaner_offset if log.log_start_offset <= cleaner_offset <= log.log_end_offset else log.log_start_offset
    )
    bound = min(last_stable_offset, log.active_segment.base_offset)
    youngest_ms = now_ms - log.config.min_compaction_lag_ms
    uncleanable = len(segments) - 1
    clean_bytes = dirty_bytes = 0
    oldest_dirty_ms = -1
    for at, segment in enumerate(segments[:-1]):
        end = segments[at + 1].base_offset
        is_dirty = end > first_dirty
        if end > bound or (
            is_dirty and log.config.min_compaction_lag_ms > 0 and segment.largest_timestamp() > youngest_ms
        ):
            # Only whole segments: the one that holds the bound is left alone.
            uncleanable = at
            break
        if not is_dirty:
            clean_bytes += segment.size
        else:
            dirty_bytes += segment.size
            first_ms = _first_timestamp(segment)
            if first_ms >= 0 and (oldest_dirty_ms < 0 or first_ms < oldest_dirty_ms):
                oldest_dirty_ms = first_ms
    first_uncleanable = max(segments[uncleanable].base_offset, first_dirty)
    return CleanableRange(first_dirty, first_uncleanable, clean_bytes, dirty_bytes, oldest_dirty_ms)


def is_worth_compacting(log: Log, cleanable: CleanableRange, now_ms: int) -> bool:
    """Enough of it is dirty, or some of it has waited longer than `max.compaction.lag.ms`."""
    if cleanable.dirty_bytes == 0:
        return False
    config = log.config
    overdue = 0 <= cleanable.oldest_dirty_ms < now_ms - config.max_compaction_lag_ms
    return overdue or cleanable.dirty_ratio > config.min_cleanable_dirty_ratio


def plan_compaction(log: Log, cleanable: CleanableRange, now_ms: int) -> CompactionPlan:
    sources = [segment for segment in log.segments if segment.base_offset < cleanable.first_uncleanable_offset]
    aborted = log.reader.aborted_transactions(log.segments[0].base_offset, cleanable.first_uncleanable_offset)
    producers = {
        entry.producer_id: ProducerTail(entry.batches[-1].last_offset if entry.batches else -1, entry.epoch)
        for entry in log.producer_state
    }
    return CompactionPlan(
        log.active_segment.folder,
        tuple(tuple(map(_describe, group)) for group in group_segments(sources, log.config.segment_bytes)),
        cleanable.first_dirty_offset,
        cleanable.first_uncleanable_offset,
        tuple(sorted(aborted, key=lambda transaction: transaction.first_offset)),
        producers,
        now_ms,
        log.config.delete_retention_ms,
        log.config.index_interval_bytes,
    )


def group_segments(segments: Sequence[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Neighbours that together fit into one segment: compaction would otherwise leave ever more small files."""
    groups: list[list[Segment]] = []
    size = 0
    for at, segment in enumerate(segments):
        # The last offset of a segment is below the base of the next; of the very last one it is not known here.
        end = segments[at + 1].base_offset if at + 1 < len(segments) else segment.base_offset
        if (
            groups
            and size + segment.size <= segment_bytes
            and end - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX // 2
        ):
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def finish_compaction(log: Log, plan: CompactionPlan, result: CompactionResult) -> bool:
    """Swap the new segments in; False (and nothing changed) when the log's old ones are no longer those of the plan."""
    if not still_fits(log, plan):
        result.discard()
        return False
    # The oldest first: a crash in between must not leave an old value behind whose tombstone is gone.
    for at, (group, new) in enumerate(zip(plan.groups, result.segments, strict=True)):
        log.rearranger.replace_segments([new], log.segments[at : at + len(group)])
    return True


def still_fits(log: Log, plan: CompactionPlan) -> bool:
    """Whether the segments of the plan are still the oldest of the log, and untouched."""
    planned = [source for group in plan.groups for source in group]
    if log.is_closed or len(planned) >= len(log.segments):
        return False
    try:
        return list(map(_describe, log.segments[: len(planned)])) == planned
    except FileNotFoundError:
        return False


def _describe(segment: Segment) -> SourceSegment:
    return SourceSegment(segment.base_offset, segment.path, segment.size, os.stat(segment.path).st_mtime_ns)


def _first_timestamp(segment: Segment) -> int:
    if segment.size == 0:
        return -1
    try:
        return decode_header(segment.open_file().read(HEADER_SIZE, 0)).max_timestamp
    except CorruptBatch as error:
        raise CorruptLog(f"{segment.path} is damaged at position 0: {error.message}") from None
