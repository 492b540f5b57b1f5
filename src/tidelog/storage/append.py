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
from tidelog.storage.recovery import assign_epoch
from tidelog.storage.scan import RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.codec.buffers import Buffer
    from tidelog.storage.log import Log
    from tidelog.storage.producer_state import AppendedBatch
    from tidelog.storage.segment import Segment
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


def append_as_leader(log: Log, records: Buffer, header: BatchHeader, leader_epoch: int, now_ms: int) -> AppendResult:
    """Append one validated batch at the end of the log, under the given leader epoch."""
    length, attributes, offset_delta = header.batch_length, header.attributes, header.last_offset_delta
    max_timestamp, producer_id = header.max_timestamp, header.producer_id
    marker: EndTransactionMarker | None = None
    if producer_id >= 0:
        if attributes & CONTROL_MASK:
            marker = decode_end_txn_marker(records)
            if marker is not None:
                log.producer_state.check_marker(marker)
        else:
            duplicate = log.producer_state.check_batch(
                producer_id,
                header.producer_epoch,
                header.base_sequence,
                offset_delta,
                transactional=attributes & TRANSACTIONAL_MASK != 0,
            )
            if duplicate is not None:
                return _answer_duplicate(duplicate)
    append_time_ms = NO_TIME
    if log.stamps_append_time:
        records, header = restamp_log_append_time(records, header, now_ms)
        append_time_ms = max_timestamp = now_ms
    base_offset = log.log_end_offset
    last_offset = base_offset + offset_delta
    size = length + LOG_OVERHEAD
    segment = log.active_segment
    if (
        segment.size + size > segment.bytes_max
        or max_timestamp > segment.roll_timestamp
        or now_ms > segment.roll_at_ms
        or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
    ):
        segment = make_room(log, size, max_timestamp, base_offset, last_offset, now_ms)
    position = segment.size
    file = segment.file
    if file is None:
        file = open_file(segment)
    else:
        segment.recently_used = True
    # Base offset and leader epoch are outside the checksum: the rest of the batch goes to the file as it came.
    parts = (_pack_prefix(base_offset, length, leader_epoch), view_of(records, _PREFIX_SIZE, size))
    try:
        file.write_parts(parts, size, position)
    except OSError as error:
        raise undo_write(segment, error) from error
    segment.index_batch(base_offset, last_offset, position, size, max_timestamp)
    log.log_end_offset = last_offset + 1
    if position == 0:
        log.note_first_batch(segment, max_timestamp, now_ms)
    if leader_epoch != log.latest_epoch:
        log.assign_epoch(leader_epoch, base_offset)
    if producer_id >= 0:
        if marker is not None:
            _record_marker(log, segment, marker, base_offset)
        elif not attributes & CONTROL_MASK:
            log.producer_state.record_batch(
                producer_id,
                header.producer_epoch,
                header.base_sequence,
                base_offset,
                last_offset,
                max_timestamp,
                transactional=attributes & TRANSACTIONAL_MASK != 0,
            )
    return AppendResult(base_offset, last_offset, append_time_ms, False)


def _answer_duplicate(duplicate: AppendedBatch) -> AppendResult:
    # Kafka answers with the timestamp of the batch as append time here, whoever stamped it.
    return AppendResult(duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, True)


def _record_marker(log: Log, segment: Segment, marker: EndTransactionMarker, offset: int) -> None:
    completed = log.producer_state.record_marker(marker, offset)
    aborted = None if completed is None else log.producer_state.aborted(completed)
    if aborted is not None:
        segment.txn_index.append(aborted)
        segment.save_indexes()


def append_as_follower(log: Log, records: Buffer, now_ms: int, leader_epoch: int) -> AppendResult | None:
    """Append batches fetched from the leader of that epoch, whose offsets and epochs are theirs already.

    A batch cut short at the end is left out (it comes with the next fetch); None when there was no whole one. Batches
    that are damaged, do not continue this log or claim a later epoch raise, and those before them in `records` are not
    appended either.
    """
    view = memoryview(records)
    batches = list(iterate_headers(view))
    if not batches:
        return None
    expected = log.log_end_offset
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
    while start < len(batches):
        start = _append_run(log, view, batches, start, now_ms)
    return AppendResult(batches[0][1].base_offset, expected - 1, NO_TIME, False)


def _append_run(log: Log, view: memoryview, batches: Sequence[tuple[int, BatchHeader]], start: int, now_ms: int) -> int:
    """Write as many batches as go into one segment with one call; the index of the first that did not."""
    first = batches[start][1]
    segment = make_room(log, first.size_in_bytes, first.max_timestamp, first.base_offset, first.last_offset, now_ms)
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
    file = open_file(segment)
    try:
        file.write(view[begin:end], segment.size)
    except OSError as error:
        raise undo_write(segment, error) from error
    for position, header in batches[start:stop]:
        if origin + position == 0:
            log.note_first_batch(segment, header.max_timestamp, now_ms)
        segment.index_header(origin + position, header)
        log.log_end_offset = header.next_offset
        assign_epoch(log.leader_epochs, header)
        if header.producer_id >= 0:
            aborted = log.producer_state.replay_batch(header, view[position : position + header.size_in_bytes])
            if aborted is not None:
                segment.txn_index.append(aborted)
                segment.save_indexes()
    log.latest_epoch = log.leader_epochs.latest_epoch
    return stop


def make_room(log: Log, size: int, max_timestamp: int, base_offset: int, last_offset: int, now_ms: int) -> Segment:
    """The active segment, after rolling if it should not take such a batch."""
    config = log.config
    if size > config.segment_bytes:
        raise BrokerError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"A batch of {size} bytes is larger than segment.bytes ({config.segment_bytes}).",
        )
    segment = log.active_segment
    if log.is_closed:
        raise StorageFailure(f"{log.topic_partition} is closed.")
    try:
        if segment.bytes_max == 0:
            log.prepare_active_segment()
        if (
            segment.size + size > segment.bytes_max
            or (segment.size and (max_timestamp > segment.roll_timestamp or now_ms > segment.roll_at_ms))
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or len(segment.offset_index) >= segment.entries_max
        ):
            log.roll(base_offset)
            log.prepare_active_segment()
            return log.active_segment
    except OSError as error:
        raise StorageFailure(f"{log.topic_partition} cannot be appended to: {error}") from error
    return segment


def open_file(segment: Segment) -> SegmentFile:
    try:
        return segment.open_file()
    except OSError as error:
        raise StorageFailure(f"{segment.path} cannot be opened: {error}") from error


def undo_write(segment: Segment, error: OSError) -> StorageFailure:
    """Cut off what a failed write may have left. Should that fail too, the next append overwrites it and a recovery
    drops it: the segment's size, not the file's, says where the log ends."""
    file = segment.file
    if file is not None:
        with suppress(OSError):
            file.truncate(segment.size)
    return StorageFailure(f"{segment.path} cannot be written: {error}")
