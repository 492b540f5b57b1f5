"""One compaction pass over closed segments: find the last offset of every key, then copy what is still needed.

Runs in any thread and touches only files: it reads the segments of its plan and writes new ones named `.cleaned`,
complete and synced when it returns. Kafka's rules decide what stays: the last record of each key, tombstones and
markers until their delete horizon (set by the first pass that meets them), nothing of aborted transactions, the last
batch of each active producer at least as an empty one. Offsets never change; gaps appear.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidelog.model.ids import NO_TIMESTAMP
from tidelog.model.limits import COMPACTION_KEY_BYTES_KEPT, COMPACTION_KEYS_MAX
from tidelog.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    CorruptBatch,
    decode_header,
    verify_crc,
)
from tidelog.records.builder import assemble_batch, shift_timestamps
from tidelog.records.record import iterate_spans, load_payload
from tidelog.storage.compaction_transactions import TransactionFollower
from tidelog.storage.errors import CorruptLog
from tidelog.storage.files import CLEANED_SUFFIX
from tidelog.storage.segment import Segment
from tidelog.storage.segment_file import READ, SegmentFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.records.record import RecordSpan
    from tidelog.storage.compaction import CompactionPlan, SourceSegment

_PAUSE_RECORDS = 256
"""Work between two pauses: a few tenths of a millisecond, so that the owner's thread never waits long for its turn."""
_READ_BYTES = 256 * 1024
_WRITE_BYTES = 1024 * 1024


class CompactionResult:
    """`segments`: one per group of the plan. `end_offset`: up to where the log is clean once they are swapped in."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.end_offset = 0
        self.records_read = 0
        self.records_kept = 0
        self.bytes_read = 0
        self.bytes_kept = 0

    def discard(self) -> None:
        """Remove what was written."""
        for segment in self.segments:
            segment.delete()
        self.segments.clear()


class KeyOffsets:
    """The last offset of each key, in bounded memory."""

    def __init__(self, keys_max: int) -> None:
        from hashlib import blake2b

        self._blake2b = blake2b
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1
        """Records above were not looked at and must be kept."""

    def __len__(self) -> int:
        return len(self._offsets)

    def _digest(self, key: bytes) -> bytes:
        return key if len(key) <= COMPACTION_KEY_BYTES_KEPT else self._blake2b(key, digest_size=16).digest()

    def put(self, key: bytes, offset: int) -> bool:
        """False when the map is full, which changes nothing."""
        offsets = self._offsets
        digest = self._digest(key)
        if len(offsets) >= self._keys_max and digest not in offsets:
            return False
        offsets[digest] = offset
        self.latest_offset = offset
        return True

    def is_superseded(self, key: bytes, offset: int) -> bool:
        return self._offsets.get(self._digest(key), -1) > offset


def run_pass(
    plan: CompactionPlan, *, pause: Callable[[], None] | None = None, keys_max: int = COMPACTION_KEYS_MAX
) -> CompactionResult:
    """The new segments of the plan. Whatever is raised (CorruptLog, OSError), no file is left behind."""
    compaction = _Pass(plan, pause or _no_pause, keys_max)
    try:
        compaction.build_map()
        for group in plan.groups:
            compaction.clean_group(group)
    except BaseException:
        compaction.result.discard()
        raise
    return compaction.result


def _no_pause() -> None:
    return


def _read_batches(source: SourceSegment) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch with its checksum verified: damage must not be copied under a new, right checksum.

    Read, not mapped: the owner may truncate the file meanwhile, and a mapping touched beyond the end kills the process.
    """
    file = SegmentFile(source.path, READ)
    position = 0
    next_offset = source.base_offset
    want = _READ_BYTES
    while position < source.size:
        size = min(want, source.size - position)
        chunk = memoryview(file.read(size, position))
        if len(chunk) < size:
            raise _damaged(source, position, f"the file ends after {len(chunk)} of {size} bytes")
        want = _READ_BYTES
        at = 0
        while len(chunk) - at >= HEADER_SIZE:
            try:
                header = decode_header(chunk, at)
            except CorruptBatch as error:
                raise _damaged(source, position + at, error.message) from None
            size = header.size_in_bytes
            if size > len(chunk) - at:
                want = max(want, size)
                break
            if header.base_offset < next_offset or header.last_offset_delta < 0 or not verify_crc(chunk, at, header):
                raise _damaged(source, position + at, "no good batch where one was due")
            yield header, chunk[at : at + size]
            next_offset = header.next_offset
            at += size
        if at == 0 and (len(chunk) < HEADER_SIZE or position + want > source.size):
            raise _damaged(source, position, f"a batch is cut short at {len(chunk)} bytes")
        position += at


def _damaged(source: SourceSegment, position: int, problem: str) -> CorruptLog:
    return CorruptLog(f"{source.path} is damaged at position {position}: {problem}")


class _Pass:
    def __init__(self, plan: CompactionPlan, pause: Callable[[], None], keys_max: int) -> None:
        self.plan = plan
        self.result = CompactionResult()
        self.keys = KeyOffsets(keys_max)
        self._pause = pause
        self._until_pause = _PAUSE_RECORDS
        self._transactions = TransactionFollower(plan.aborted)

    def _worked(self, records: int) -> None:
        self._until_pause -= records + 1
        if self._until_pause < 0:
            self._until_pause = _PAUSE_RECORDS
            self._pause()

    # -- first half: the map -------------------------------------------------------------------------------------

    def build_map(self) -> None:
        plan = self.plan
        # Transactions that ended before the dirty part are over: their markers are not read here.
        undecided = [aborted for aborted in plan.aborted if aborted.last_offset >= plan.first_dirty_offset]
        transactions = TransactionFollower(undecided)
        sources = [source for group in plan.groups for source in group]
        self.result.end_offset = plan.first_uncleanable_offset
        for at, source in enumerate(sources):
            if at + 1 < len(sources) and sources[at + 1].base_offset <= plan.first_dirty_offset:
                continue
            for header, batch in _read_batches(source):
                if header.last_offset < plan.first_dirty_offset:
                    continue
                if header.is_control:
                    transactions.see_marker(header, batch)
                elif transactions.see_data(header):
                    pass
                elif not self._map_batch(header, batch):
                    self.result.end_offset = self.keys.latest_offset + 1
                    return
        self.keys.latest_offset = max(self.keys.latest_offset, plan.first_uncleanable_offset - 1)

    def _map_batch(self, header: BatchHeader, batch: memoryview) -> bool:
        payload = load_payload(batch, header)
        base_offset = header.base_offset
        first_dirty = self.plan.first_dirty_offset
        for span in iterate_spans(payload, header.record_count):
            offset = base_offset + span.offset_delta
            if span.key_size < 0 or offset < first_dirty:
                continue
            if not self.keys.put(payload[span.key_start : span.key_start + span.key_size], offset):
                return False
        self._worked(header.record_count)
        return True

    # -- second half: copying ------------------------------------------------------------------------------------

    def clean_group(self, group: tuple[SourceSegment, ...]) -> None:
        plan = self.plan
        segment = Segment.create(plan.folder, group[0].base_offset, plan.now_ms, suffix=CLEANED_SUFFIX)
        segment.index_interval_bytes = plan.index_interval_bytes
        self.result.segments.append(segment)
        file = segment.open_file()
        pending: list[bytes | memoryview] = []
        pending_bytes = 0
        last: tuple[BatchHeader, bytes | memoryview] | None = None
        for source in group:
            for header, batch in _read_batches(source):
                kept = self._filter(segment, header, batch)
                self.result.bytes_read += len(batch)
                last = (header, kept) if kept is not None else (header, b"")
                if kept is None:
                    continue
                pending.append(kept)
                pending_bytes += len(kept)
                self._index(segment, kept)
                if pending_bytes >= _WRITE_BYTES:
                    file.write(b"".join(pending), segment.size - pending_bytes)
                    pending, pending_bytes = [], 0
        if last is not None and not last[1]:
            # Where the group ended must stay readable from the file: a swap finished after a crash relies on it.
            # The batch has no producer, so that it can neither revive a producer nor begin a transaction.
            pending.append(_empty_batch(last[0], anonymous=True))
            pending_bytes += len(pending[-1])
            self._index(segment, pending[-1])
        file.write(b"".join(pending), segment.size - pending_bytes)
        segment.close_indexes()
        file.sync()
        os.utime(segment.path, ns=(group[-1].modified_ns, group[-1].modified_ns))

    def _index(self, segment: Segment, batch: bytes | memoryview) -> None:
        segment.index_header(segment.size, decode_header(batch))
        self.result.bytes_kept += len(batch)

    def _filter(self, segment: Segment, header: BatchHeader, batch: memoryview) -> bytes | memoryview | None:
        """What remains of a batch: itself, a smaller one, an empty one, or None."""
        now_ms = self.plan.now_ms
        past_horizon = header.has_delete_horizon and header.base_timestamp <= now_ms
        self.result.records_read += header.record_count
        if header.is_control:
            unneeded, aborted = self._transactions.see_marker(header, batch)
            if aborted is not None:
                segment.txn_index.append(aborted)
            if header.record_count and not (unneeded and past_horizon):
                self.result.records_kept += header.record_count
                if unneeded and not header.has_delete_horizon:
                    payload = load_payload(batch, header)
                    return self._rebuild(header, payload, list(iterate_spans(payload, header.record_count)), True)
                return batch
            return self._maybe_empty(header)
        if self._transactions.see_data(header) or header.record_count == 0:
            return self._maybe_empty(header)
        payload = load_payload(batch, header)
        kept = []
        has_tombstones = False
        for span in iterate_spans(payload, header.record_count):
            if self._keeps(payload, span, header.base_offset, past_horizon):
                kept.append(span)
                has_tombstones = has_tombstones or span.value_size < 0
        self._worked(header.record_count)
        if not kept:
            return self._maybe_empty(header)
        self.result.records_kept += len(kept)
        sets_horizon = has_tombstones and not header.has_delete_horizon
        if len(kept) == header.record_count and not sets_horizon:
            return batch
        return self._rebuild(header, payload, kept, sets_horizon)

    def _keeps(self, payload: bytes, span: RecordSpan, base_offset: int, past_horizon: bool) -> bool:
        offset = base_offset + span.offset_delta
        if offset > self.keys.latest_offset:
            return True
        if span.key_size < 0:
            # Written before the topic was compacted: without a key it can never be replaced.
            return False
        if past_horizon and span.value_size < 0:
            return False
        return not self.keys.is_superseded(payload[span.key_start : span.key_start + span.key_size], offset)

    def _rebuild(self, header: BatchHeader, payload: bytes, kept: list[RecordSpan], sets_horizon: bool) -> bytes:
        """The batch with only these records; base offset, last offset and sequence stay what they were."""
        max_timestamp = header.max_timestamp
        if not header.timestamp_type:
            max_timestamp = header.base_timestamp + max(span.timestamp_delta for span in kept)
        changed = header.replace(record_count=len(kept), max_timestamp=max_timestamp)
        if not sets_horizon:
            return assemble_batch(changed, b"".join([payload[span.start : span.end] for span in kept]))
        horizon_ms = self.plan.now_ms + self.plan.delete_retention_ms
        changed = changed.replace(base_timestamp=horizon_ms, attributes=header.attributes | DELETE_HORIZON_MASK)
        # Timestamps are relative to the field that now holds the horizon.
        return assemble_batch(changed, shift_timestamps(payload, kept, header.base_timestamp - horizon_ms))

    def _maybe_empty(self, header: BatchHeader) -> bytes | None:
        if header.producer_id < 0:
            return None
        tail = self.plan.producers.get(header.producer_id)
        if tail is None:
            return None
        if tail.last_offset >= 0:
            is_needed = header.last_offset == tail.last_offset
        else:
            is_needed = header.is_control and header.producer_epoch == tail.epoch
        return _empty_batch(header) if is_needed else None


def _empty_batch(header: BatchHeader, *, anonymous: bool = False) -> bytes:
    """Only the header: offsets and (unless anonymous) producer, epoch and sequence, and no records."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_MASK)
    empty = header.replace(record_count=0, attributes=attributes, base_timestamp=NO_TIMESTAMP)
    if anonymous:
        empty = empty.replace(
            attributes=attributes & TIMESTAMP_TYPE_MASK, producer_id=-1, producer_epoch=-1, base_sequence=-1
        )
    return assemble_batch(empty, b"")
