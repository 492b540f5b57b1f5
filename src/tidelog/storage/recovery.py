"""Opening a log from its files: what must hold before the first append or read.

After a clean stop nothing is scanned but the few batches behind the last index entry. After a crash, every batch from
the recovery point on is checked; the first that is torn or wrong and all behind it are cut, and one log line says what
and why. A closed segment with damage in it raises CorruptLog instead: no crash of ours does that.
The end of a log is always the end of its last good batch, never the size of a file.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from typing import NamedTuple

from tidelog.records.batch import BatchHeader
from tidelog.runtime.disk import Folder
from tidelog.storage.errors import CorruptIndex, CorruptLog, CorruptSnapshot
from tidelog.storage.files import LEADER_EPOCH_FILE, remove_if_present
from tidelog.storage.leader_epochs import LeaderEpochs
from tidelog.storage.partition_directory import DirectoryListing, list_directory, tidy_directory
from tidelog.storage.producer_snapshot import EMPTY_SIZE, read_snapshot, snapshot_path, write_snapshot
from tidelog.storage.producer_state import ProducerState
from tidelog.storage.scan import SegmentScan
from tidelog.storage.segment import Segment
from tidelog.storage.txn_index import ENTRY_SIZE as TXN_ENTRY_SIZE

logger = logging.getLogger("tidelog.storage")


class LogHint(NamedTuple):
    """Where a log ended at a clean stop. Believed only if the active segment still has that size."""

    active_base_offset: int
    active_size_bytes: int
    log_end_offset: int


class LoadedLog(NamedTuple):
    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    producer_state: ProducerState
    snapshots: set[int]
    leader_epochs: LeaderEpochs | None
    """None when they were not needed: read on first use."""
    recovered: bool
    has_metadata: bool
    created: bool = False


def load_log(
    folder: Folder,
    *,
    now_ms: int,
    expiration_ms: int,
    index_interval_bytes: int,
    recovery_point: int,
    log_start_offset: int | None,
    clean_shutdown: bool,
    hint: LogHint | None,
    reserved_bytes: int = 0,
) -> LoadedLog:
    """`reserved_bytes`: for the first segment of a log that is new."""
    directory = folder.path
    try:
        listing = list_directory(directory)
    except FileNotFoundError:
        os.makedirs(directory)
        listing = DirectoryListing({}, {}, {}, [], False)
    if listing.others:
        listing = tidy_directory(directory, listing)
    state = ProducerState(expiration_ms)
    if not listing.logs:
        start = log_start_offset or 0
        for offset in listing.snapshots:
            remove_if_present(snapshot_path(directory, offset))
        segment = Segment.create(folder, start, now_ms, reserved_bytes=reserved_bytes)
        return LoadedLog([segment], start, start, state, set(), None, False, listing.has_metadata, True)
    segments = [Segment(folder, base, size=size, created_ms=now_ms) for base, size in sorted(listing.logs.items())]
    for segment in segments:
        segment.index_interval_bytes = index_interval_bytes
    damaged = [base for base, size in listing.txn_indexes.items() if size % TXN_ENTRY_SIZE]
    if damaged:
        # Which transactions were aborted is only known by replaying the producers.
        clean_shutdown = False
        recovery_point = min(recovery_point, *damaged)
    snapshots = dict(listing.snapshots)
    epochs: LeaderEpochs | None = None
    end: int | None = None
    if clean_shutdown:
        try:
            end = _find_log_end(segments, hint)
        except CorruptLog as problem:
            logger.warning("not cleanly stopped after all: %s", problem.message)
            recovery_point = min(recovery_point, segments[-2 if len(segments) > 1 else -1].base_offset)
    start = segments[0].base_offset if log_start_offset is None else max(log_start_offset, segments[0].base_offset)
    if end is not None:
        _load_producer_state(folder, segments, state, snapshots, end, now_ms)
    else:
        epochs = load_leader_epochs(folder, segments)
        end = _recover(folder, segments, state, snapshots, epochs, recovery_point, now_ms)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(start)
    return LoadedLog(segments, start, end, state, set(snapshots), epochs, epochs is not None, listing.has_metadata)


def _find_log_end(segments: list[Segment], hint: LogHint | None) -> int:
    active = segments[-1]
    if hint is not None and hint.active_base_offset == active.base_offset and hint.active_size_bytes == active.size:
        return hint.log_end_offset
    end = active.find_end()
    if active.size == 0 and len(segments) > 1 and segments[-2].find_end() > end:
        raise CorruptLog(f"{active.path} is empty and begins before the end of the segment before it")
    return end


def load_leader_epochs(folder: Folder, segments: list[Segment]) -> LeaderEpochs:
    """From the checkpoint file; when it is damaged, from the batches."""
    path = os.path.join(folder.path, LEADER_EPOCH_FILE)
    try:
        return LeaderEpochs.load(path, folder.disk)
    except CorruptIndex as problem:
        logger.warning("rebuilding %s: %s", path, problem)
    epochs = LeaderEpochs(path, [], folder.disk)
    for segment in segments:
        for _, header in SegmentScan(segment.open_file(), segment.base_offset):
            assign_epoch(epochs, header)
    return epochs


def assign_epoch(epochs: LeaderEpochs, header: BatchHeader) -> None:
    if header.partition_leader_epoch > epochs.latest_epoch:
        epochs.assign(header.partition_leader_epoch, header.base_offset)


def _load_producer_state(
    folder: Folder, segments: list[Segment], state: ProducerState, snapshots: dict[int, int], end: int, now_ms: int
) -> None:
    """After a clean stop there is a snapshot of the end; its size shows whether it holds a producer."""
    if snapshots.get(end) == EMPTY_SIZE or (len(segments) == 1 and segments[0].size == 0 and end not in snapshots):
        return
    rebuild_producer_state(folder, segments, state, snapshots, end, now_ms)


def rebuild_producer_state(
    folder: Folder, segments: list[Segment], state: ProducerState, snapshots: dict[int, int], end: int, now_ms: int
) -> None:
    """The state at offset `end`: the newest good snapshot up to there, and the batches since.

    Snapshots beyond `end` describe a log that is no more, and damaged ones are of no use: both are removed.
    """
    state.clear()
    for offset in [offset for offset in snapshots if offset > end]:
        forget_snapshot(folder.path, snapshots, offset)
    replay_from = segments[0].base_offset
    for offset in sorted(snapshots, reverse=True):
        try:
            state.restore(read_snapshot(folder.path, offset), now_ms)
            replay_from = offset
            break
        except CorruptSnapshot as problem:
            logger.warning("ignoring %s: %s", snapshot_path(folder.path, offset), problem)
            forget_snapshot(folder.path, snapshots, offset)
    first = max(0, bisect_right(segments, replay_from, key=lambda segment: segment.base_offset) - 1)
    for segment in segments[first:]:
        if segment.base_offset >= end:
            return
        if segment.base_offset > replay_from and segment.base_offset not in snapshots:
            _renew_snapshot(folder, state, snapshots, segment.base_offset)
        if segment.size:
            replay_segment(segment, state, replay_from, end)


def _renew_snapshot(folder: Folder, state: ProducerState, snapshots: dict[int, int], offset: int) -> None:
    """Write the snapshot a segment begins with, while its content is known.

    The batches it stands for may be deleted by retention; a truncation would then forget their producers.
    """
    try:
        write_snapshot(folder, offset, state.snapshot())
        snapshots[offset] = 0
    except OSError as error:
        logger.warning("cannot write %s: %s", snapshot_path(folder.path, offset), error)


def forget_snapshot(directory: str, snapshots: dict[int, int], offset: int) -> None:
    remove_if_present(snapshot_path(directory, offset))
    del snapshots[offset]


def replay_segment(segment: Segment, state: ProducerState, start: int, end: int) -> None:
    """Feed the state the batches of [start, end) of one segment."""
    position = 0
    if start > segment.base_offset:
        place = segment.locate(start)
        if place is None:
            return
        position = place[0]
    scan = SegmentScan(segment.open_file(), segment.base_offset, start=position)
    for at, header in scan:
        if header.base_offset >= end:
            return
        if header.base_offset >= start and header.producer_id >= 0:
            state.replay_batch(header, scan.batch(at, header))
    if scan.problem is not None:
        raise CorruptLog(f"{segment.path} is damaged at position {scan.valid_bytes}: {scan.problem}")


def _recover(
    folder: Folder,
    segments: list[Segment],
    state: ProducerState,
    snapshots: dict[int, int],
    epochs: LeaderEpochs,
    recovery_point: int,
    now_ms: int,
) -> int:
    """Check everything from the recovery point on, cut what is bad, make the indexes again; the log end offset."""
    first = max(0, bisect_right(segments, recovery_point, key=lambda segment: segment.base_offset) - 1)
    kept = {offset: size for offset, size in snapshots.items() if offset <= segments[first].base_offset}
    rebuild_producer_state(folder, segments[:first] or segments[:1], state, kept, segments[first].base_offset, now_ms)
    for offset in [offset for offset in snapshots if offset <= segments[first].base_offset and offset not in kept]:
        del snapshots[offset]
    end = segments[first].base_offset
    at = first
    while at < len(segments):
        segment = segments[at]
        later = segments[at + 1 :]
        if at:
            # Whatever is there was not read, and the crash may have damaged it.
            _renew_snapshot(folder, state, snapshots, segment.base_offset)
        end, problem = _recover_segment(segment, state, epochs, recovery_point)
        if problem is not None:
            if any(other.size for other in later):
                raise CorruptLog(f"{problem}; {len(later)} segments follow it")
            for other in later:
                other.delete()
            del segments[at + 1 :]
            _cut(segment, end, recovery_point, problem)
        elif later:
            if end > later[0].base_offset:
                if not any(other.size for other in later):
                    # Left by a roll that did not happen after all.
                    for other in later:
                        other.delete()
                    del segments[at + 1 :]
                    break
                raise CorruptLog(f"{segment.path} ends at offset {end}, behind the beginning of the next segment")
            segment.become_closed()
            end = max(end, later[0].base_offset)
        at += 1
    for offset in [offset for offset in snapshots if offset > end]:
        forget_snapshot(folder.path, snapshots, offset)
    return end


def _recover_segment(
    segment: Segment, state: ProducerState, epochs: LeaderEpochs, recovery_point: int
) -> tuple[int, str | None]:
    """Index and replay the good batches; where they end, and what is wrong behind them. The log file is not touched."""
    scan = SegmentScan(segment.open_file(), segment.base_offset, verify_from=recovery_point)
    segment.begin_rebuild()
    segment.txn_index.reset()
    segment.size = 0
    for position, header in scan:
        segment.index_header(position, header)
        assign_epoch(epochs, header)
        if header.producer_id >= 0:
            aborted = state.replay_batch(header, scan.batch(position, header))
            if aborted is not None:
                segment.txn_index.append(aborted)
    segment.save_indexes()
    if scan.problem is None:
        return scan.next_offset, None
    return scan.next_offset, f"{segment.path} is damaged at position {scan.valid_bytes}: {scan.problem}"


def _cut(segment: Segment, end: int, recovery_point: int, problem: str) -> None:
    """Shorten the file of the last segment to its good batches."""
    file = segment.open_file()
    lost = file.size_bytes() - segment.size
    file.truncate(segment.size)
    level = logging.ERROR if end < recovery_point else logging.WARNING
    flushed = f", although the log was flushed up to {recovery_point}" if end < recovery_point else ""
    logger.log(level, "cut %d bytes, the log now ends at offset %d%s: %s", lost, end, flushed, problem)
