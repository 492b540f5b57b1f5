"""One replica of a partition: its segments in order, its producers and leader epochs, where it begins and ends.

Owned by one thread. Appended bytes are in the page cache (they survive the process); `flush` makes them survive the
machine and moves the recovery point. Bytes move in `append`, `read` and `recovery`; here is the state they share and
what rearranges segments: rolling, deleting, replacing, truncating.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from typing import TYPE_CHECKING

from tidelog.storage import append, flushing, read, rearrange
from tidelog.storage.append import AppendResult
from tidelog.storage.errors import StorageFailure, offset_out_of_range
from tidelog.storage.files import remove_if_present
from tidelog.storage.flushing import PendingFlush
from tidelog.storage.partition_metadata import write_partition_metadata
from tidelog.storage.producer_snapshot import snapshot_path, write_snapshot
from tidelog.storage.recovery import LogHint, load_leader_epochs, load_log
from tidelog.storage.segment import NEVER, Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tidelog.codec.buffers import Buffer
    from tidelog.config.topic import TopicConfig
    from tidelog.model.ids import TopicPartition
    from tidelog.records.batch import BatchHeader
    from tidelog.storage.leader_epochs import LeaderEpochs
    from tidelog.storage.leftovers import Leftovers
    from tidelog.storage.read import TimestampOffset
    from tidelog.storage.recovery import LoadedLog
    from tidelog.storage.region import LogRegion
    from tidelog.storage.txn_index import AbortedTransaction

__all__ = ["AppendResult", "Log", "LogHint"]

PRODUCER_EXPIRATION_MS = 86_400_000
"""Default of `producer.id.expiration.ms`."""

logger = logging.getLogger("tidelog.storage")


class Log:
    """`log_start_offset <= log_end_offset`; `segments` is never empty, ascends by base offset, and its last is active.

    Change `segments`, offsets and epochs only through the methods.
    """

    __slots__ = (
        "_leader_epochs",
        "_leftovers",
        "_upper_position",
        "active_segment",
        "config",
        "directory",
        "directory_unsynced",
        "flushes_under_way",
        "is_closed",
        "is_new",
        "latest_epoch",
        "log_end_offset",
        "log_start_offset",
        "now_ms",
        "producer_state",
        "recovery_point",
        "segments",
        "snapshot_offsets",
        "stamps_append_time",
        "topic_id",
        "topic_partition",
        "was_recovered",
    )

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        loaded: LoadedLog,
        *,
        topic_id: bytes | None,
        now_ms: Callable[[], int],
        recovery_point: int,
        leftovers: Leftovers | None = None,
    ) -> None:
        self.directory = directory
        self._leftovers = leftovers
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.now_ms = now_ms
        self.segments = loaded.segments
        self.active_segment: Segment = loaded.segments[-1]
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.producer_state = loaded.producer_state
        self.snapshot_offsets = loaded.snapshots
        """Producer snapshots on disk."""
        self.recovery_point = recovery_point
        """Everything below is on disk for good; never above the log end offset."""
        self.was_recovered = loaded.recovered
        """Whether the log was scanned when it was opened."""
        self.is_closed = False
        self._leader_epochs = loaded.leader_epochs
        self.latest_epoch = -1 if loaded.leader_epochs is None else loaded.leader_epochs.latest_epoch
        """The epoch of the last batch as far as known: what an append compares its own with."""
        self.directory_unsynced = True
        """Files were created, renamed or removed since the directory was last synced."""
        self.is_new = loaded.created
        """The name of the directory itself is not synced either."""
        self.flushes_under_way: list[PendingFlush] = []
        """Begun and not finished: a truncation takes from each what it cuts."""
        self._upper_position = (-1, -1, -1)
        self.config = config
        self.stamps_append_time = False
        self.update_config(config)

    @classmethod
    def open(
        cls,
        directory: Path | str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        topic_id: bytes | None = None,
        now_ms: Callable[[], int],
        recovery_point: int = 0,
        log_start_offset: int | None = None,
        clean_shutdown: bool,
        hint: LogHint | None = None,
        producer_id_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        leftovers: Leftovers | None = None,
    ) -> Log:
        """Open the log in the directory, or create it there.

        Raises CorruptLog when a closed segment is damaged, StorageFailure when the disk refuses. `recovery_point`
        counts only after a crash: a clean shutdown says that everything was flushed. A stale `hint` is ignored.
        Without `leftovers`, the files of dropped segments are removed at once.
        """
        path = os.fspath(directory)
        try:
            loaded = load_log(
                path,
                now_ms=now_ms(),
                expiration_ms=producer_id_expiration_ms,
                index_interval_bytes=config.index_interval_bytes,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                clean_shutdown=clean_shutdown,
                hint=hint,
                reserved_bytes=_reserved_bytes(config),
            )
            log = cls(
                path,
                topic_partition,
                config,
                loaded,
                topic_id=topic_id,
                now_ms=now_ms,
                recovery_point=min(recovery_point, loaded.log_end_offset)
                if loaded.recovered
                else loaded.log_end_offset,
                leftovers=leftovers,
            )
            if topic_id is not None and not loaded.has_metadata:
                write_partition_metadata(path, topic_id)
            if log.log_end_offset < log.log_start_offset:
                logger.warning(
                    "%s ends at offset %d, below its start %d: starting again there",
                    topic_partition,
                    log.log_end_offset,
                    log.log_start_offset,
                )
                log.truncate_fully_and_start_at(log.log_start_offset)
        except OSError as error:
            raise StorageFailure(f"{topic_partition} cannot be opened: {error}") from error
        return log

    def __repr__(self) -> str:
        extent = f"[{self.log_start_offset}, {self.log_end_offset})"
        return f"Log({self.topic_partition}, {extent}, {len(self.segments)} segments)"

    # -- what is known -------------------------------------------------------------------------------------------

    @property
    def leader_epochs(self) -> LeaderEpochs:
        epochs = self._leader_epochs
        if epochs is None:
            epochs = self._leader_epochs = load_leader_epochs(self.directory, self.segments)
            self.latest_epoch = epochs.latest_epoch
        return epochs

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins; None when none is open."""
        return self.producer_state.first_open_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """How far readers of committed data may go: the high watermark, or the first transaction undecided below.

        Never before the start of the log: records of an open transaction may be deleted like others.
        """
        first_unstable = self.producer_state.first_unstable_offset(high_watermark)
        if first_unstable is None or first_unstable > high_watermark:
            return high_watermark
        return max(first_unstable, self.log_start_offset)

    @property
    def hint(self) -> LogHint:
        """What makes the next open after a clean stop cheap."""
        active = self.active_segment
        return LogHint(active.base_offset, active.size, self.log_end_offset)

    def segment_index(self, offset: int) -> int:
        """Which segment holds the offset (or would): the last whose base is not above it, else the first."""
        at = bisect_right(self.segments, offset, key=_base_offset) - 1
        return at if at > 0 else 0

    def update_config(self, config: TopicConfig) -> None:
        self.config = config
        self.stamps_append_time = config.message_timestamp_type == "LogAppendTime"
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes
        # The next append computes the bounds of the active segment anew.
        self.active_segment.bytes_max = 0

    # -- bytes in ------------------------------------------------------------------------------------------------

    def append_as_leader(self, records: Buffer, header: BatchHeader, leader_epoch: int, now_ms: int) -> AppendResult:
        """Append one validated batch; see `storage.append` for what holds when this returns or raises."""
        return append.append_as_leader(self, records, header, leader_epoch, now_ms)

    def append_as_follower(self, records: Buffer, leader_epoch: int = append.EPOCH_MAX) -> AppendResult | None:
        """Append whole batches that carry their offsets already; None when there was none."""
        return append.append_as_follower(self, records, self.now_ms(), leader_epoch)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """The first batch of a leader epoch is at the offset."""
        epochs = self.leader_epochs
        if epoch > epochs.latest_epoch:
            epochs.assign(epoch, start_offset)
        self.latest_epoch = epoch

    def prepare_active_segment(self) -> None:
        """Load what appends to the active segment need and compute when it is full."""
        segment = self.active_segment
        segment.prepare_append()
        self._bound(segment)
        if segment.size:
            self.note_first_batch(segment, segment.first_timestamp, segment.created_ms)

    def _bound(self, segment: Segment) -> None:
        config = self.config
        segment.index_interval_bytes = config.index_interval_bytes
        segment.bytes_max = config.segment_bytes
        segment.entries_max = min(config.segment_index_bytes // 8, config.segment_index_bytes // 12 - 1)

    def note_first_batch(self, segment: Segment, max_timestamp: int, now_ms: int) -> None:
        """The segment's age begins with the timestamp of its first batch, or with the clock if that has none."""
        config = self.config
        age_max_ms = config.segment_age_max_ms
        if config.segment_jitter_ms:
            age_max_ms -= int.from_bytes(os.urandom(4), "big") % min(config.segment_jitter_ms, config.segment_ms)
        segment.first_timestamp = max_timestamp
        segment.roll_timestamp = max_timestamp + age_max_ms if max_timestamp >= 0 else NEVER
        segment.roll_at_ms = NEVER if max_timestamp >= 0 else now_ms + age_max_ms

    # -- bytes out -----------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool) -> LogRegion:
        """Batches from the one that holds `offset` on; empty when there is nothing below `upper_offset` yet."""
        try:
            return read.read(self, offset, max_bytes, upper_offset, min_one_batch)
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> StorageFailure:
        return StorageFailure(f"{self.topic_partition} cannot be read: {error}")

    def position_of_upper(self, at: int, upper_offset: int) -> int:
        """Where the first batch that reaches `upper_offset` begins in a segment; its size when none does.

        Kept for the next call: between two moves of the high watermark every reader asks for the same.
        """
        segment = self.segments[at]
        if at + 1 < len(self.segments) and upper_offset >= self.segments[at + 1].base_offset:
            return segment.size
        known_base, known_offset, known_position = self._upper_position
        if known_offset == upper_offset and known_base == segment.base_offset:
            return known_position
        place = segment.locate(upper_offset)
        position = segment.size if place is None else place[0]
        if place is not None:
            self._upper_position = (segment.base_offset, upper_offset, position)
        return position

    def forget_positions(self) -> None:
        self._upper_position = (-1, -1, -1)

    def upper_bound_offset(self, region: LogRegion) -> int:
        """An offset behind everything in the region: the upper end to ask `aborted_transactions` with."""
        return read.upper_bound_offset(self, region)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions with data in [start, end)."""
        try:
            return read.aborted_transactions(self, start, end)
        except OSError as error:
            raise self._unreadable(error) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at this timestamp or later."""
        try:
            return read.offset_for_timestamp(self, timestamp)
        except OSError as error:
            raise self._unreadable(error) from error

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp."""
        try:
            return read.max_timestamp_offset(self)
        except OSError as error:
            raise self._unreadable(error) from error

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The largest epoch up to this one and where it ends; None when the log cannot tell."""
        found = self.leader_epochs.end_offset_for(epoch, self.log_end_offset)
        return None if found[0] < 0 else found

    # -- segments ------------------------------------------------------------------------------------------------

    def roll(self, base_offset: int | None = None) -> Segment:
        """Close the active segment and go on in a new one. An empty active segment already at that offset stays.

        A producer snapshot of this moment is written, so that a start replays no closed segment.
        """
        base = max(self.log_end_offset, base_offset or 0)
        old = self.active_segment
        if old.size == 0 and old.base_offset == base:
            return old
        new = Segment(self.directory, base, created_ms=self.now_ms(), fresh=True)
        try:
            new.create_files(_reserved_bytes(self.config))
            self.take_snapshot(base)
            old.become_closed()
            if self.config.preallocate:
                old.open_file().truncate(old.size)
        except OSError as error:
            # An empty segment left behind would look like the end of the log once the old one has grown.
            new.delete()
            raise StorageFailure(f"{self.topic_partition} cannot begin a new segment: {error}") from error
        self.segments.append(new)
        self.active_segment = new
        self.directory_unsynced = True
        if old.size == 0 and old is not self.segments[0]:
            # Nothing is under the old name; only the first says something, where the log begins.
            self.segments.remove(old)
            old.delete()
        return new

    def take_snapshot(self, offset: int) -> None:
        """What is known of producers, to disk; a disk that refuses makes only the next start slower."""
        try:
            write_snapshot(self.directory, offset, self.producer_state.snapshot())
            self.snapshot_offsets.add(offset)
        except OSError as error:
            logger.warning("cannot write the producer snapshot of %s at %d: %s", self.topic_partition, offset, error)

    def remove_snapshots(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            self.snapshot_offsets.discard(offset)
            remove_if_present(snapshot_path(self.directory, offset))

    def delete_segments(self, segments: Sequence[Segment]) -> int:
        """Remove the oldest segments, never the active one; how many bytes that were.

        The log start offset moves first. Regions handed out earlier stay readable.
        """
        return rearrange.delete_segments(self, segments)

    def discard(self, segment: Segment) -> None:
        """Take the files of a segment out of the log for good; regions handed out earlier stay readable."""
        if self._leftovers is None:
            segment.delete()
        else:
            due_ms = self.now_ms() + self.config.file_delete_delay_ms
            self._leftovers.add(segment.retire(), segment.size, due_ms)
        self.directory_unsynced = True

    def delete_old_segments(self, is_deletable: Callable[[Segment], bool], upper_offset: int) -> int:
        """Remove segments from the oldest on while they are deletable and wholly below `upper_offset`; how many."""
        return rearrange.delete_old_segments(self, is_deletable, upper_offset)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put segments written as `.cleaned` in the place of closed ones; crash-safe, see `storage.rearrange`."""
        rearrange.replace_segments(self, new, old)

    def increment_log_start_offset(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def delete_records_before(self, offset: int) -> int:
        """Nothing below the offset is served any more; the new log start offset.

        Segments wholly below it may be deleted now. The start offset lives in memory: whoever owns the data directory
        checkpoints it.
        """
        if offset > self.log_end_offset or offset < 0:
            raise offset_out_of_range(self.topic_partition, offset, self.log_start_offset, self.log_end_offset)
        self.increment_log_start_offset(offset)
        return self.log_start_offset

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at the offset; a batch that reaches over it goes as a whole."""
        rearrange.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on as an empty log at the offset."""
        rearrange.truncate_fully_and_start_at(self, offset)

    # -- to disk -------------------------------------------------------------------------------------------------

    @property
    def has_unflushed_closed_segment(self) -> bool:
        """Whether a flush is due because a segment was closed: a start after a crash reads all that is not flushed."""
        return self.recovery_point < self.active_segment.base_offset

    def begin_flush(self) -> PendingFlush:
        """What must be synced to make everything appended so far safe: `sync` it in any thread, then `finish_flush`."""
        return flushing.begin_flush(self)

    def finish_flush(self, flush: PendingFlush) -> None:
        """The flush was synced: the recovery point moves, up to where the log was cut meanwhile."""
        self.flushes_under_way.remove(flush)
        self.recovery_point = max(self.recovery_point, flush.end_offset)

    def flush(self) -> None:
        """After this, everything appended survives a crash of the machine."""
        flush = self.begin_flush()
        try:
            flush.sync()
        except StorageFailure:
            self.directory_unsynced = self.is_new = True
            raise
        self.finish_flush(flush)

    def close(self, *, clean: bool = True) -> None:
        """Let go of all files. A clean close flushes and saves what makes the next open cheap: indexes, producers."""
        if self.is_closed:
            return
        if clean:
            self._save_for_clean_open()
        self.is_closed = True
        self.active_segment.bytes_max = 0
        for segment in self.segments:
            segment.release()

    def _save_for_clean_open(self) -> None:
        self.flush()
        active = self.active_segment
        active.cut_failed_write()
        if self.config.preallocate:
            active.open_file().truncate(active.size)
        active.largest_timestamp()
        active.load_offset_index()
        active.close_indexes()
        if self._leader_epochs is not None:
            self._leader_epochs.save()
        end = self.log_end_offset
        if end not in self.snapshot_offsets and (self.producer_state or end > self.segments[0].base_offset):
            self.take_snapshot(end)
            bases = {segment.base_offset for segment in self.segments}
            self.remove_snapshots([offset for offset in self.snapshot_offsets if offset != end and offset not in bases])

    def delete(self) -> None:
        """Remove the partition's directory and everything in it. Regions handed out earlier stay readable."""
        self.close(clean=False)
        for name in os.listdir(self.directory):
            remove_if_present(os.path.join(self.directory, name))
        os.rmdir(self.directory)


def _reserved_bytes(config: TopicConfig) -> int:
    return config.segment_bytes if config.preallocate else 0


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
