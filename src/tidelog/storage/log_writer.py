"""The way of bytes into a log, leader's and follower's. The leader's is the hottest path of a node: cost is per batch.

After an append returns, the batch is in the page cache: it survives a crash of the process, not one of the machine
(that takes a flush). When the disk refuses, the file is cut back to where it ended and nothing in memory has changed.
Order: check, write, then record in indexes, epochs and producer state, none of which can refuse any more.
"""

from __future__ import annotations

from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final

from tidelog.codec.buffers import view_of
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.quick_value import QuickValue
from tidelog.records.batch import (
    CONTROL_MASK,
    LOG_OVERHEAD,
    TRANSACTIONAL_MASK,
    BatchHeader,
    CorruptBatch,
    iterate_headers,
    verify_crc,
)
from tidelog.records.builder import restamp_log_append_time
from tidelog.records.control import EndTransactionMarker, decode_end_txn_marker
from tidelog.storage.errors import StorageFailure
from tidelog.storage.scan import RELATIVE_OFFSET_MAX
from tidelog.storage.segment import NEVER, Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.codec.buffers import Buffer
    from tidelog.config.topic import TopicConfig
    from tidelog.storage.log_state import LogState
    from tidelog.storage.producer_state import AppendedBatch
    from tidelog.storage.segment_file import SegmentFile

NO_TIME: Final = -1
EPOCH_MAX: Final = 0x7FFFFFFF
_PREFIX: Final = Struct(">qii")
_pack_prefix: Final = _PREFIX.pack
_PREFIX_SIZE: Final = _PREFIX.size


class AppendResult(QuickValue):
    __slots__ = ("base_offset", "duplicate", "last_offset", "log_append_time_ms")

    def __init__(self, base_offset: int, last_offset: int, log_append_time_ms: int, duplicate: bool) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        """-1 unless the topic stamps records itself; of a duplicate, the largest timestamp of the batch in the log."""
        self.duplicate = duplicate
        """The batch was in the log already; the offsets are those of the first time."""

    def fields(self) -> tuple[object, ...]:
        return self.base_offset, self.last_offset, self.log_append_time_ms, self.duplicate


class LogWriter:
    """Appends to one log, and begins a new segment when the active one is full or too old."""

    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    # -- the leader's way ----------------------------------------------------------------------------------------

    def append_as_leader(self, records: Buffer, header: BatchHeader, leader_epoch: int, now_ms: int) -> AppendResult:
        """Append one validated batch at the end of the log, under the given leader epoch."""
        state = self._state
        length, attributes, offset_delta = header.batch_length, header.attributes, header.last_offset_delta
        max_timestamp, producer_id = header.max_timestamp, header.producer_id
        marker: EndTransactionMarker | None = None
        if producer_id >= 0:
            if attributes & CONTROL_MASK:
                marker = decode_end_txn_marker(records)
                if marker is not None:
                    state.producer_state.check_marker(marker)
            else:
                duplicate = state.producer_state.check_batch(
                    producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    offset_delta,
                    transactional=attributes & TRANSACTIONAL_MASK != 0,
                )
                if duplicate is not None:
                    return _answer_duplicate(duplicate)
        append_time_ms = NO_TIME
        if state.stamps_append_time:
            records, header = restamp_log_append_time(records, header, now_ms)
            append_time_ms = max_timestamp = now_ms
        base_offset = state.log_end_offset
        last_offset = base_offset + offset_delta
        size = length + LOG_OVERHEAD
        segment = state.active_segment
        if (
            segment.size + size > segment.bytes_max
            or max_timestamp > segment.roll_timestamp
            or now_ms > segment.roll_at_ms
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        ):
            segment = self._make_room(size, max_timestamp, base_offset, last_offset, now_ms)
        position = segment.size
        file = segment.file
        if file is None:
            file = _open_file(segment)
        else:
            segment.recently_used = True
        # Base offset and leader epoch are outside the checksum: the rest of the batch goes to the file as it came.
        parts = (_pack_prefix(base_offset, length, leader_epoch), view_of(records, _PREFIX_SIZE, size))
        try:
            file.write_parts(parts, size, position)
        except OSError as error:
            raise _undo_write(segment, error) from error
        segment.index_batch(base_offset, last_offset, position, size, max_timestamp)
        state.grow_to(last_offset + 1)
        if position == 0:
            self._note_first_batch(segment, max_timestamp, now_ms)
        if leader_epoch != state.latest_epoch:
            state.assign_epoch(leader_epoch, base_offset)
        if producer_id >= 0:
            if marker is not None:
                _record_marker(state, segment, marker, base_offset)
            elif not attributes & CONTROL_MASK:
                state.producer_state.record_batch(
                    producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    base_offset,
                    last_offset,
                    max_timestamp,
                    transactional=attributes & TRANSACTIONAL_MASK != 0,
                )
        return AppendResult(base_offset, last_offset, append_time_ms, False)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """The first batch of a leader epoch is at the offset, or will be."""
        self._state.assign_epoch(epoch, start_offset)

    # -- the follower's way --------------------------------------------------------------------------------------

    def append_as_follower(self, records: Buffer, leader_epoch: int = EPOCH_MAX) -> AppendResult | None:
        """Append batches fetched from the leader of that epoch, which carry their offsets and epochs already.

        A batch cut short at the end is left out (it comes with the next fetch); None when there was no whole one.
        Batches that are damaged, do not continue this log or claim a later epoch raise, and those before them in
        `records` are not appended either.
        """
        view = memoryview(records)
        batches = list(iterate_headers(view))
        if not batches:
            return None
        expected = self._state.log_end_offset
        for position, header in batches:
            if header.base_offset < expected or header.last_offset_delta < 0:
                raise BrokerError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"A fetched batch begins at offset {header.base_offset} where {expected} or more was due.",
                )
            if header.partition_leader_epoch > leader_epoch:
                raise BrokerError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"The fetched batch at offset {header.base_offset} is of a later leader epoch than its leader.",
                )
            if not verify_crc(view, position, header):
                raise CorruptBatch(f"The checksum of the fetched batch at offset {header.base_offset} is wrong.")
            expected = header.next_offset
        start = 0
        now_ms = self._state.system.wall_clock_ms()
        while start < len(batches):
            start = self._append_run(view, batches, start, now_ms)
        return AppendResult(batches[0][1].base_offset, expected - 1, NO_TIME, False)

    def _append_run(self, view: memoryview, batches: Sequence[tuple[int, BatchHeader]], start: int, now_ms: int) -> int:
        """Write as many batches as go into one segment with one call; the index of the first that did not."""
        state = self._state
        first = batches[start][1]
        segment = self._make_room(
            first.size_in_bytes, first.max_timestamp, first.base_offset, first.last_offset, now_ms
        )
        begin = batches[start][0]
        end = begin + first.size_in_bytes
        stop = start + 1
        while stop < len(batches):
            header = batches[stop][1]
            if (
                segment.size + end - begin + header.size_in_bytes > segment.bytes_max
                or header.max_timestamp > segment.roll_timestamp
                or header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            ):
                break
            end += header.size_in_bytes
            stop += 1
        origin = segment.size - begin
        file = _open_file(segment)
        try:
            file.write(view[begin:end], segment.size)
        except OSError as error:
            raise _undo_write(segment, error) from error
        for position, header in batches[start:stop]:
            if origin + position == 0:
                self._note_first_batch(segment, header.max_timestamp, now_ms)
            segment.index_header(origin + position, header)
            state.grow_to(header.next_offset)
            if header.partition_leader_epoch != state.latest_epoch:
                state.assign_epoch(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                aborted = state.producer_state.replay_batch(header, view[position : position + header.size_in_bytes])
                if aborted is not None:
                    segment.txn_index.append(aborted)
                    segment.save_indexes()
        return stop

    # -- segments ------------------------------------------------------------------------------------------------

    def roll(self, base_offset: int | None = None) -> Segment:
        """Close the active segment and go on in a new one. An empty active segment already at that offset stays.

        A producer snapshot of this moment is written, so that a start replays no closed segment.
        """
        state = self._state
        base = max(state.log_end_offset, base_offset or 0)
        old = state.active_segment
        if old.size == 0 and old.base_offset == base:
            return old
        new = Segment(state.folder, base, created_ms=state.system.wall_clock_ms(), fresh=True)
        try:
            new.create_files(reserved_bytes(state.config))
            state.producer_snapshots.take(base, state.producer_state)
            old.become_closed()
            if state.config.preallocate:
                old.open_file().truncate(old.size)
        except OSError as error:
            # An empty segment left behind would look like the end of the log once the old one has grown.
            new.delete()
            raise StorageFailure(f"{state.topic_partition} cannot begin a new segment: {error}") from error
        state.begin_segment(new)
        if old.size == 0 and old is not state.segments[0]:
            state.drop_empty(old)
            old.delete()
        return new

    def _make_room(self, size: int, max_timestamp: int, base_offset: int, last_offset: int, now_ms: int) -> Segment:
        """The active segment, after rolling if it should not take such a batch."""
        state = self._state
        if size > state.config.segment_bytes:
            raise BrokerError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"A batch of {size} bytes is larger than segment.bytes ({state.config.segment_bytes}).",
            )
        segment = state.active_segment
        if state.is_closed:
            raise StorageFailure(f"{state.topic_partition} is closed.")
        try:
            if segment.bytes_max == 0:
                self._prepare_active_segment()
            if (
                segment.size + size > segment.bytes_max
                or (segment.size and (max_timestamp > segment.roll_timestamp or now_ms > segment.roll_at_ms))
                or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
                or len(segment.offset_index) >= segment.entries_max
            ):
                self.roll(base_offset)
                self._prepare_active_segment()
                return state.active_segment
        except OSError as error:
            raise StorageFailure(f"{state.topic_partition} cannot be appended to: {error}") from error
        return segment

    def _prepare_active_segment(self) -> None:
        """Load what appends to the active segment need and compute when it is full."""
        segment, config = self._state.active_segment, self._state.config
        segment.prepare_append()
        segment.index_interval_bytes = config.index_interval_bytes
        segment.bytes_max = config.segment_bytes
        segment.entries_max = min(config.segment_index_bytes // 8, config.segment_index_bytes // 12 - 1)
        if segment.size:
            self._note_first_batch(segment, segment.first_timestamp, segment.created_ms)

    def _note_first_batch(self, segment: Segment, max_timestamp: int, now_ms: int) -> None:
        """The segment's age begins with the timestamp of its first batch, or with the clock if that has none."""
        config = self._state.config
        age_max_ms = config.segment_age_max_ms
        if config.segment_jitter_ms:
            drawn = int.from_bytes(self._state.system.random_bytes(4), "big")
            age_max_ms -= drawn % min(config.segment_jitter_ms, config.segment_ms)
        segment.first_timestamp = max_timestamp
        segment.roll_timestamp = max_timestamp + age_max_ms if max_timestamp >= 0 else NEVER
        segment.roll_at_ms = NEVER if max_timestamp >= 0 else now_ms + age_max_ms


def reserved_bytes(config: TopicConfig) -> int:
    """What a new segment reserves on the disk."""
    return config.segment_bytes if config.preallocate else 0


def _answer_duplicate(duplicate: AppendedBatch) -> AppendResult:
    # Kafka answers with the timestamp of the batch as append time here, producer's or broker's.
    return AppendResult(duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, True)


def _record_marker(state: LogState, segment: Segment, marker: EndTransactionMarker, offset: int) -> None:
    completed = state.producer_state.record_marker(marker, offset)
    aborted = None if completed is None else state.producer_state.aborted(completed)
    if aborted is not None:
        segment.txn_index.append(aborted)
        segment.save_indexes()


def _open_file(segment: Segment) -> SegmentFile:
    try:
        return segment.open_file()
    except OSError as error:
        raise StorageFailure(f"{segment.path} cannot be opened: {error}") from error


def _undo_write(segment: Segment, error: OSError) -> StorageFailure:
    """Cut off what a failed write may have left. Should that fail too, the next append overwrites it and a recovery
    drops it: the segment's size, not the file's, says where the log ends."""
    file = segment.file
    if file is not None:
        with suppress(OSError):
            file.truncate(segment.size)
    return StorageFailure(f"{segment.path} cannot be written: {error}")
