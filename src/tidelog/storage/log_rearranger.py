"""Operations that take segments away or put others in their place, so that a crash in between leaves a log that opens.

Truncation cuts from the end: newest files go first. Replacement (compaction) follows Kafka's steps: new segments are
complete as `.cleaned`, become `.swap` from the newest to the oldest, then the old ones go, then `.swap` is taken off.
Until the last `.swap` exists a restart drops the new ones; from then on it finishes the replacement.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tidelog.storage.errors import StorageFailure, offset_out_of_range
from tidelog.storage.files import SWAP_SUFFIX, sync_directory
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.storage.leftovers import Leftovers
    from tidelog.storage.log_state import LogState
    from tidelog.storage.log_writer import LogWriter


class LogRearranger:
    """Deletes, truncates and replaces segments of one log. Regions handed out earlier stay readable."""

    __slots__ = ("_leftovers", "_state", "_writer")

    def __init__(self, state: LogState, writer: LogWriter, leftovers: Leftovers | None) -> None:
        """Without `leftovers`, files are removed at once."""
        self._state = state
        self._writer = writer
        self._leftovers = leftovers

    def _discard(self, segment: Segment) -> None:
        """Take the files of a segment out of the log for good."""
        if self._leftovers is None:
            segment.delete()
        else:
            due_ms = self._state.system.wall_clock_ms() + self._state.config.file_delete_delay_ms
            self._leftovers.add(segment.retire(), segment.size, due_ms)
        self._state.note_unsynced_directory()

    # -- from the beginning --------------------------------------------------------------------------------------

    def start_at(self, offset: int) -> None:
        """Nothing below the offset is served any more; an offset below the start of the log changes nothing."""
        self._state.start_at(offset)

    def delete_records_before(self, offset: int) -> int:
        """Nothing below the offset is served any more; the new log start offset.

        Segments wholly below it may be deleted now. The start offset lives in memory: the owner of the data directory
        checkpoints it.
        """
        state = self._state
        if offset > state.log_end_offset or offset < 0:
            raise offset_out_of_range(state.topic_partition, offset, state.log_start_offset, state.log_end_offset)
        state.start_at(offset)
        return state.log_start_offset

    def delete_oldest(self, count: int) -> int:
        """Remove so many segments, never the active one; how many bytes that were. The log start offset moves first."""
        dropped = self._state.drop_oldest(count)
        self._state.producer_snapshots.remove(segment.base_offset for segment in dropped)
        for segment in dropped:
            self._discard(segment)
        return sum(segment.size for segment in dropped)

    def delete_old_segments(self, is_deletable: Callable[[Segment], bool], upper_offset: int) -> int:
        """Remove segments from the oldest on while they are deletable and wholly below `upper_offset`; how many."""
        segments = self._state.segments
        count = 0
        for segment, following in pairwise(segments):
            if following.base_offset > upper_offset or not is_deletable(segment):
                break
            count += 1
        self.delete_oldest(count)
        return count

    # -- from the end --------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cut the log so that it ends at the offset; a batch that reaches over it goes as a whole."""
        state = self._state
        if offset >= state.log_end_offset:
            state.forget_epochs_from(offset)
            return
        if offset < state.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        try:
            while state.active_segment.base_offset > offset:
                self._discard_newest()
            active = state.active_segment
            removed_from = active.truncate_to(offset)
            end = offset if removed_from is None else min(offset, max(removed_from, active.base_offset))
            state.end_at(end)
            if active.find_end() < end:
                # Compaction took the batches before the end, and files could not tell it from an earlier one. The name
                # of a new segment does: otherwise a restart would give out offsets for the second time.
                self._writer.roll()
        except OSError as error:
            raise StorageFailure(f"{state.topic_partition} cannot be truncated: {error}") from error

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on as an empty log at the offset."""
        state = self._state
        try:
            while len(state.segments) > 1:
                self._discard_newest()
            self._discard(state.active_segment)
            state.begin_again(Segment.create(state.folder, offset, state.system.wall_clock_ms()))
        except OSError as error:
            raise StorageFailure(f"{state.topic_partition} cannot be truncated: {error}") from error

    def _discard_newest(self) -> None:
        # The files first: should the disk refuse, the segment is still there for a second attempt.
        self._discard(self._state.active_segment)
        self._state.drop_newest()

    # -- in between ----------------------------------------------------------------------------------------------

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put segments written as `.cleaned` in the place of closed neighbours; crash-safe.

        `old` as a whole cover the offsets of `new`, which begins where they begin.
        """
        state = self._state
        state.check_replaceable(old)
        try:
            for segment in new:
                segment.close_indexes()
                segment.open_file().sync_data()
            for segment in reversed(new):
                segment.move_to(SWAP_SUFFIX)
            # From here on a restart goes forward.
            sync_directory(state.folder.path, state.folder.disk)
            for segment in old:
                self._discard(segment)
            for segment in new:
                segment.move_to("")
            sync_directory(state.folder.path, state.folder.disk)
        except OSError as error:
            raise StorageFailure(f"cannot replace segments of {state.topic_partition}: {error}") from error
        for segment in new:
            segment.become_closed()
            segment.index_interval_bytes = state.config.index_interval_bytes
        state.replace(old, new)
        kept = {segment.base_offset for segment in new}
        state.producer_snapshots.remove(segment.base_offset for segment in old if segment.base_offset not in kept)
