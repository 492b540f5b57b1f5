"""Operations that take segments away or put others in their place, so that a crash in between leaves a log that opens.

Truncation cuts from the end: newest files go first. Replacement (compaction) follows Kafka's steps: new segments are
complete as `.cleaned`, become `.swap` from the newest to the oldest, then the old ones go, then `.swap` is taken off.
Until the last `.swap` exists a restart drops the new ones; from then on it finishes the replacement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.storage.errors import StorageFailure
from tidelog.storage.files import SWAP_SUFFIX, sync_directory
from tidelog.storage.flushing import limit_flushes
from tidelog.storage.recovery import rebuild_producer_state
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.storage.log import Log


def replace_segments(log: Log, new: Sequence[Segment], old: Sequence[Segment]) -> None:
    """`old` are neighbours, closed, and as a whole cover the offsets of `new`, which begins where they begin."""
    first = log.segments.index(old[0])
    assert list(old) == log.segments[first : first + len(old)], "only neighbouring segments can be replaced"
    assert old[-1] is not log.active_segment, "the active segment cannot be replaced"
    try:
        for segment in new:
            segment.close_indexes()
            segment.open_file().sync_data()
        for segment in reversed(new):
            segment.move_to(SWAP_SUFFIX)
        # From here on a restart goes forward.
        sync_directory(log.directory)
        for segment in old:
            log.discard(segment)
        for segment in new:
            segment.move_to("")
        sync_directory(log.directory)
    except OSError as error:
        raise StorageFailure(f"cannot replace segments of {log.topic_partition}: {error}") from error
    for segment in new:
        segment.become_closed()
        segment.index_interval_bytes = log.config.index_interval_bytes
    log.segments[first : first + len(old)] = new
    kept = {segment.base_offset for segment in new}
    log.remove_snapshots([segment.base_offset for segment in old if segment.base_offset not in kept])
    log.forget_positions()


def delete_segments(log: Log, segments: Sequence[Segment]) -> int:
    count = len(segments)
    assert list(segments) == log.segments[:count], "only the oldest segments can go"
    assert count < len(log.segments), "the active segment cannot go: roll first"
    if count == 0:
        return 0
    log.increment_log_start_offset(log.segments[count].base_offset)
    del log.segments[:count]
    log.forget_positions()
    log.remove_snapshots([segment.base_offset for segment in segments])
    for segment in segments:
        log.discard(segment)
    return sum(segment.size for segment in segments)


def delete_old_segments(log: Log, is_deletable: Callable[[Segment], bool], upper_offset: int) -> int:
    count = 0
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset > upper_offset or not is_deletable(segment):
            break
        count += 1
    delete_segments(log, log.segments[:count])
    return count


def truncate_to(log: Log, offset: int) -> None:
    if offset >= log.log_end_offset:
        # An epoch that began at the end of the log and has no records yet may be the one that is contradicted.
        log.leader_epochs.truncate_from_end(offset)
        log.latest_epoch = log.leader_epochs.latest_epoch
        return
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset)
        return
    try:
        while log.segments[-1].base_offset > offset:
            log.discard(log.segments.pop())
        active = log.segments[-1]
        removed_from = active.truncate_to(offset)
        end = offset if removed_from is None else min(offset, max(removed_from, active.base_offset))
        _become_end(log, end)
        _rebuild_producers(log, end)
        if active.find_end() < end:
            # Compaction took the batches before the end, and files could not tell it from an earlier one. The name of a
            # new segment does: otherwise a restart would give out offsets for the second time.
            log.roll()
    except OSError as error:
        raise StorageFailure(f"{log.topic_partition} cannot be truncated: {error}") from error


def truncate_fully_and_start_at(log: Log, offset: int) -> None:
    try:
        while log.segments:
            log.discard(log.segments.pop())
        log.segments.append(Segment.create(log.directory, offset, log.now_ms()))
        log.log_start_offset = offset
        _become_end(log, offset)
        log.leader_epochs.clear()
        log.latest_epoch = -1
        log.producer_state.clear()
        log.remove_snapshots(sorted(log.snapshot_offsets))
    except OSError as error:
        raise StorageFailure(f"{log.topic_partition} cannot be truncated: {error}") from error


def _become_end(log: Log, end: int) -> None:
    """The last segment is active again and the log ends at `end`."""
    log.active_segment = log.segments[-1]
    log.active_segment.bytes_max = 0
    log.log_end_offset = end
    log.log_start_offset = min(log.log_start_offset, end)
    log.recovery_point = min(log.recovery_point, end)
    limit_flushes(log, end)
    log.forget_positions()
    log.leader_epochs.truncate_from_end(end)
    log.latest_epoch = log.leader_epochs.latest_epoch


def _rebuild_producers(log: Log, end: int) -> None:
    snapshots = dict.fromkeys(log.snapshot_offsets, 0)
    rebuild_producer_state(log.directory, log.segments, log.producer_state, snapshots, end, log.now_ms())
    log.snapshot_offsets.clear()
    log.snapshot_offsets.update(snapshots)
