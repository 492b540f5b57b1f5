"""What is known of one log: its segments in order, where it begins and ends, its producers and leader epochs.

All holders of the state may read its fields; only its methods change them, so that what the class promises holds
whichever part appends, truncates or deletes (`log_writer`, `log_rearranger`, `log_flusher`). Owned by one thread.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from typing import TYPE_CHECKING

from tidelog.storage.producer_snapshot import ProducerSnapshots
from tidelog.storage.recovery import load_leader_epochs, rebuild_producer_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.config.topic import TopicConfig
    from tidelog.model.ids import TopicPartition
    from tidelog.runtime.disk import Folder
    from tidelog.runtime.system import System
    from tidelog.storage.leader_epochs import LeaderEpochs
    from tidelog.storage.log_flusher import PendingFlush
    from tidelog.storage.recovery import LoadedLog
    from tidelog.storage.segment import Segment

logger = logging.getLogger("tidelog.storage")


class LogState:
    """`log_start_offset <= log_end_offset`, and `recovery_point <= log_end_offset`; `segments` is never empty, ascends
    by base offset, and its last is `active_segment`, the only one that is appended to.
    """

    __slots__ = (
        "_leader_epochs",
        "active_segment",
        "config",
        "flushes_under_way",
        "folder",
        "is_closed",
        "latest_epoch",
        "log_end_offset",
        "log_start_offset",
        "producer_snapshots",
        "producer_state",
        "rearrangements",
        "recovery_point",
        "segments",
        "stamps_append_time",
        "system",
        "topic_partition",
        "unsynced_directories",
    )

    def __init__(
        self,
        folder: Folder,
        topic_partition: TopicPartition,
        config: TopicConfig,
        loaded: LoadedLog,
        *,
        recovery_point: int,
        system: System,
    ) -> None:
        self.folder = folder
        self.topic_partition = topic_partition
        self.system = system
        self.segments = loaded.segments
        self.active_segment: Segment = loaded.segments[-1]
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.producer_state = loaded.producer_state
        self.producer_snapshots = ProducerSnapshots(folder, loaded.snapshots)
        self._leader_epochs = loaded.leader_epochs
        """None until they are needed."""
        self.latest_epoch = -1 if loaded.leader_epochs is None else loaded.leader_epochs.latest_epoch
        """The epoch of the last batch as far as known: what an append compares its own with."""
        self.recovery_point = recovery_point
        """Everything below is on disk for good."""
        self.unsynced_directories = [folder.path, os.path.dirname(folder.path)] if loaded.created else [folder.path]
        """Files were created, renamed or removed in them since they were last synced."""
        self.flushes_under_way: list[PendingFlush] = []
        """Begun and not finished: a truncation takes from each what it cuts."""
        self.rearrangements = 0
        """Changes each time that positions in files found before may be wrong."""
        self.is_closed = False
        self.config = config
        self.stamps_append_time = False
        self.update_config(config)

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def leader_epochs(self) -> LeaderEpochs:
        epochs = self._leader_epochs
        if epochs is None:
            epochs = self._leader_epochs = load_leader_epochs(self.folder, self.segments)
            self.latest_epoch = epochs.latest_epoch
        return epochs

    def segment_index(self, offset: int) -> int:
        """Which segment holds the offset (or would): the last whose base is not above it, else the first."""
        at = bisect_right(self.segments, offset, key=_base_offset) - 1
        return at if at > 0 else 0

    # -- growing -------------------------------------------------------------------------------------------------

    def grow_to(self, end_offset: int) -> None:
        """A batch that ends before the offset is in the active segment."""
        self.log_end_offset = end_offset

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """The first batch of a leader epoch is at the offset. An epoch that is not later changes nothing."""
        epochs = self.leader_epochs
        if epoch > epochs.latest_epoch:
            epochs.assign(epoch, start_offset)
        self.latest_epoch = epochs.latest_epoch

    def begin_segment(self, segment: Segment) -> None:
        """The log goes on in a new segment."""
        assert segment.base_offset >= self.log_end_offset, "offsets are given out once"
        self.segments.append(segment)
        self.active_segment = segment
        self.note_unsynced_directory()

    def update_config(self, config: TopicConfig) -> None:
        self.config = config
        self.stamps_append_time = config.message_timestamp_type == "LogAppendTime"
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes
        # The next append computes the bounds of the active segment again.
        self.active_segment.bytes_max = 0

    # -- shrinking -----------------------------------------------------------------------------------------------

    def start_at(self, offset: int) -> None:
        """Nothing below the offset is served any more. The log never begins earlier than it did."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)

    def drop_oldest(self, count: int) -> list[Segment]:
        """Takes segments out, never the active one; the log begins behind them."""
        assert count < len(self.segments), "the active segment cannot go: roll first"
        dropped = self.segments[:count]
        if dropped:
            self.start_at(self.segments[count].base_offset)
            del self.segments[:count]
            self._rearranged()
        return dropped

    def drop_newest(self) -> None:
        """Takes out the active segment: the log ends where it began, at the latest. The caller calls `end_at`."""
        assert len(self.segments) > 1, "a log has a segment"
        dropped = self.segments.pop()
        self._cut_to(min(self.log_end_offset, dropped.base_offset))

    def drop_empty(self, segment: Segment) -> None:
        """Takes out a segment without batches that is not the active one. Only of the first one the name counts."""
        assert segment.size == 0, "it has batches"
        assert segment not in (self.segments[0], self.active_segment), "its name says something"
        self.segments.remove(segment)

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """`old` are neighbours and closed."""
        self.check_replaceable(old)
        first = self.segments.index(old[0])
        self.segments[first : first + len(old)] = new
        self._rearranged()

    def check_replaceable(self, old: Sequence[Segment]) -> None:
        first = self.segments.index(old[0])
        assert list(old) == self.segments[first : first + len(old)], "only neighbouring segments can be replaced"
        assert old[-1] is not self.active_segment, "the active segment cannot be replaced"

    def end_at(self, end_offset: int) -> None:
        """The last segment was cut: it is active again, the log ends at the offset, and so does what is known of
        producers and epochs."""
        self._cut_to(end_offset)
        self.leader_epochs.truncate_from_end(end_offset)
        self.latest_epoch = self.leader_epochs.latest_epoch
        self.producer_snapshots.rebuild(
            lambda kept: rebuild_producer_state(
                self.folder, self.segments, self.producer_state, kept, end_offset, self.system.wall_clock_ms()
            )
        )

    def forget_epochs_from(self, end_offset: int) -> None:
        """An epoch that began at the end of the log and has no records yet may be contradicted by the leader's."""
        self.leader_epochs.truncate_from_end(end_offset)
        self.latest_epoch = self.leader_epochs.latest_epoch

    def begin_again(self, segment: Segment) -> None:
        """The log is empty and begins and ends where the segment does; its last segment before is gone."""
        assert len(self.segments) == 1, "the others were dropped"
        self.segments[0] = segment
        self._cut_to(segment.base_offset)
        self.log_start_offset = self.log_end_offset = segment.base_offset
        self.leader_epochs.clear()
        self.latest_epoch = -1
        self.producer_state.clear()
        self.producer_snapshots.remove(self.producer_snapshots.offsets())

    def _cut_to(self, end_offset: int) -> None:
        self.active_segment = self.segments[-1]
        self.active_segment.bytes_max = 0
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        # What is being flushed at the moment is worth nothing from there on.
        for flush in self.flushes_under_way:
            flush.end_offset = min(flush.end_offset, end_offset)
        self._rearranged()

    def _rearranged(self) -> None:
        self.rearrangements += 1

    # -- closing -------------------------------------------------------------------------------------------------

    def save_leader_epochs(self) -> None:
        if self._leader_epochs is not None:
            self._leader_epochs.save()

    def save_producers(self) -> None:
        """A snapshot of the end spares the next open a replay. Those at which no segment begins are not needed then."""
        end, snapshots = self.log_end_offset, self.producer_snapshots
        if end not in snapshots and (self.producer_state or end > self.segments[0].base_offset):
            snapshots.take(end, self.producer_state)
            kept = {end, *(segment.base_offset for segment in self.segments)}
            snapshots.remove(offset for offset in snapshots.offsets() if offset not in kept)

    def become_closed(self) -> None:
        self.is_closed = True
        self.active_segment.bytes_max = 0

    # -- to disk -------------------------------------------------------------------------------------------------

    def note_unsynced_directory(self) -> None:
        if self.folder.path not in self.unsynced_directories:
            self.unsynced_directories.append(self.folder.path)

    def flush_begun(self, flush: PendingFlush) -> None:
        self.flushes_under_way.append(flush)
        if flush.directories:
            self.unsynced_directories = []

    def flush_finished(self, flush: PendingFlush) -> None:
        """The flush was synced: the recovery point moves, up to where the log was cut meanwhile."""
        self.flushes_under_way.remove(flush)
        self.recovery_point = max(self.recovery_point, flush.end_offset)

    def flush_failed(self) -> None:
        self.unsynced_directories = [self.folder.path, os.path.dirname(self.folder.path)]


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
