"""Finding things in a log: regions for fetches, offsets for timestamps, aborted transactions.

Nothing here changes the log (an index that turns out to be damaged is made again). Positions come from the offset
index and a short walk over headers; records are opened only to find the exact one for a timestamp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.records.batch import LOG_OVERHEAD, BatchHeader
from tidelog.records.record import iterate_records
from tidelog.storage.errors import CorruptIndex, CorruptLog, StorageFailure, offset_out_of_range
from tidelog.storage.region import EMPTY_REGION, LogRegion
from tidelog.storage.scan import SegmentScan

if TYPE_CHECKING:
    from tidelog.storage.log_state import LogState
    from tidelog.storage.segment import Segment
    from tidelog.storage.txn_index import AbortedTransaction


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class LogReader:
    """What can be read from one log. StorageFailure when the disk refuses."""

    __slots__ = ("_state", "_upper_position")

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._upper_position = (-1, -1, -1, -1)
        """Rearrangements of the log, base of a segment, upper offset and the position found for it. Between two moves
        of the high watermark every reader asks for the same."""

    def _unreadable(self, error: OSError) -> StorageFailure:
        return StorageFailure(f"{self._state.topic_partition} cannot be read: {error}")

    # -- batches -------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool) -> LogRegion:
        """Batches from the one that holds `offset` on, at most `max_bytes`, none that reaches `upper_offset`; empty
        when there is nothing below `upper_offset` yet."""
        try:
            return self._read(offset, max_bytes, upper_offset, min_one_batch)
        except OSError as error:
            raise self._unreadable(error) from error

    def _read(self, offset: int, max_bytes: int, upper_offset: int, min_one_batch: bool) -> LogRegion:
        state = self._state
        log_end_offset = state.log_end_offset
        if offset > log_end_offset or offset < state.log_start_offset:
            raise offset_out_of_range(state.topic_partition, offset, state.log_start_offset, log_end_offset)
        if offset >= upper_offset or offset == log_end_offset:
            return EMPTY_REGION
        segments = state.segments
        at = len(segments) - 1
        segment = segments[at]
        if offset < segment.base_offset:
            at = state.segment_index(offset)
            segment = segments[at]
        place = segment.locate(offset)
        while place is None:
            # Compaction may have left no batch at or behind the offset in this segment.
            at += 1
            if at == len(segments):
                return EMPTY_REGION
            segment = segments[at]
            place = segment.locate(offset)
        position, base_offset, batch_size = place
        if upper_offset >= log_end_offset:
            end = segment.size
        else:
            if base_offset >= upper_offset:
                return EMPTY_REGION
            end = self._position_of_upper(at, upper_offset)
        size = end - position
        is_cut = size > max_bytes
        if is_cut:
            size = _cut_to(segment, position, max(max_bytes, batch_size if min_one_batch else 0), batch_size)
        if size < batch_size:
            # A first batch that does not fit (or is not whole below the upper offset) helps no reader.
            return EMPTY_REGION
        return LogRegion(segment.open_file(), position, size, segment.base_offset, is_cut)

    def _position_of_upper(self, at: int, upper_offset: int) -> int:
        """Where the first batch that reaches `upper_offset` begins in a segment; its size when none does."""
        state = self._state
        segment = state.segments[at]
        if at + 1 < len(state.segments) and upper_offset >= state.segments[at + 1].base_offset:
            return segment.size
        rearrangements, known_base, known_offset, known_position = self._upper_position
        if (
            known_offset == upper_offset
            and known_base == segment.base_offset
            and rearrangements == state.rearrangements
        ):
            return known_position
        place = segment.locate(upper_offset)
        if place is None:
            return segment.size
        self._upper_position = (state.rearrangements, segment.base_offset, upper_offset, place[0])
        return place[0]

    def upper_bound_offset(self, region: LogRegion) -> int:
        """An offset that no batch of the region reaches, as near as the index can tell without reading the region: the
        upper end to ask `aborted_transactions` with."""
        state = self._state
        if region.size == 0:
            return state.log_end_offset
        at = state.segment_index(region.segment_base_offset)
        bound = state.segments[at].load_offset_index().offset_at_or_after(region.position + region.size)
        if bound is not None:
            return bound + 1
        return state.segments[at + 1].base_offset if at + 1 < len(state.segments) else state.log_end_offset

    # -- transactions --------------------------------------------------------------------------------------------

    def last_stable_offset(self, high_watermark: int) -> int:
        """How far readers of committed data may go: the high watermark, or the first transaction undecided below.

        Never before the start of the log: records of an open transaction may be deleted like others.
        """
        first_unstable = self._state.producer_state.first_unstable_offset(high_watermark)
        if first_unstable is None or first_unstable > high_watermark:
            return high_watermark
        return max(first_unstable, self._state.log_start_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins; None when none is open."""
        return self._state.producer_state.first_open_offset

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with data in [start_offset, end_offset), for readers of committed data."""
        found: list[AbortedTransaction] = []
        try:
            for segment in self._state.segments[self._state.segment_index(start_offset) :]:
                try:
                    if segment.txn_index.collect(start_offset, end_offset, found):
                        break
                except CorruptIndex as problem:
                    raise CorruptLog(f"{segment.txn_index.path} is damaged: {problem}") from None
        except OSError as error:
            raise self._unreadable(error) from error
        return found

    # -- timestamps and epochs -----------------------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is this one or later; None when there is none."""
        start_offset = self._state.log_start_offset
        try:
            for segment in self._state.segments[self._state.segment_index(start_offset) :]:
                if segment.size and segment.largest_timestamp() >= timestamp:
                    found = _search_segment(segment, timestamp, start_offset)
                    if found is not None:
                        return found
        except OSError as error:
            raise self._unreadable(error) from error
        return None

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp of the log; None when no record has one."""
        best: Segment | None = None
        try:
            for segment in self._state.segments[self._state.segment_index(self._state.log_start_offset) :]:
                if segment.size and segment.largest_timestamp() > (-1 if best is None else best.max_timestamp):
                    best = segment
            return None if best is None else _find_largest_timestamp(best)
        except OSError as error:
            raise self._unreadable(error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The largest epoch up to this one and where it ends; None when the log cannot tell."""
        found = self._state.leader_epochs.end_offset_for(epoch, self._state.log_end_offset)
        return None if found[0] < 0 else found


def _find_largest_timestamp(best: Segment) -> TimestampOffset | None:
    place = best.locate(best.max_timestamp_offset)
    if place is None:
        return None
    scan = SegmentScan(best.open_file(), best.base_offset, start=place[0])
    for position, header in scan:
        if header.max_timestamp == best.max_timestamp:
            for record in iterate_records(_load_batch(best, position, header)):
                if record.timestamp == best.max_timestamp:
                    return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def _cut_to(segment: Segment, position: int, max_bytes: int, batch_size: int) -> int:
    """How much to hand out of more than fits: up to a place where a batch is known to begin, if there is one.

    What lies behind that place would be a batch cut short, which readers throw away and ask for again.
    """
    if max_bytes <= batch_size:
        return max_bytes
    boundary = segment.load_offset_index().boundary_at_or_before(position + max_bytes)
    return boundary - position if boundary >= position + batch_size else max_bytes


def _search_segment(segment: Segment, timestamp: int, start_offset: int) -> TimestampOffset | None:
    offset = max(segment.load_time_index().lookup(timestamp), start_offset)
    place = segment.locate(offset)
    if place is None:
        return None
    scan = SegmentScan(segment.open_file(), segment.base_offset, start=place[0])
    for position, header in scan:
        if position >= segment.size:
            break
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            for record in iterate_records(_load_batch(segment, position, header)):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def _load_batch(segment: Segment, position: int, header: BatchHeader) -> bytes:
    return segment.open_file().read(header.batch_length + LOG_OVERHEAD, position)
