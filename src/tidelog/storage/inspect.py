"""Reading the files of a log offline: finding damage without repairing anything.

Works on directories written by Tidelog or by Kafka, in use or not; nothing is opened for writing. A log that is being
written may show a torn tail that the next moment completes. Damage is what a start would cut, rebuild or refuse;
files left by an interrupted rename or compaction are only remarks.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from tidelog.model.errors import BrokerError
from tidelog.records.control import decode_end_txn_marker
from tidelog.records.record import iterate_records
from tidelog.storage.errors import CorruptIndex, CorruptSnapshot
from tidelog.storage.files import (
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_stem,
    offset_of_name,
    read_whole,
)
from tidelog.storage.leader_epochs import decode_checkpoint
from tidelog.storage.offset_index import ENTRY as OFFSET_ENTRY
from tidelog.storage.producer_snapshot import decode_snapshot
from tidelog.storage.scan import SegmentScan
from tidelog.storage.segment_file import READ, SegmentFile
from tidelog.storage.time_index import ENTRY as TIME_ENTRY
from tidelog.storage.txn_index import TxnIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.records.batch import BatchHeader


class Problem(NamedTuple):
    path: str
    message: str
    is_damage: bool = True
    """False for a remark: nothing is lost or wrong."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class LogReport(NamedTuple):
    """What verifying one log found."""

    directory: str
    segments: int
    batches: int
    records: int
    size_bytes: int
    first_offset: int
    next_offset: int
    problems: tuple[Problem, ...]


class _SegmentMap:
    """Where the batches of a segment lie, for checking its indexes; three numbers per batch."""

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.positions = array("q")
        self.last_offsets = array("q")
        self.newest_ms = array("q")
        """The largest timestamp of this batch and all before it."""
        self.records = 0
        self.valid_bytes = 0
        self.next_offset = base_offset

    def add(self, position: int, header: BatchHeader) -> None:
        newest = self.newest_ms[-1] if self.newest_ms else -1
        self.positions.append(position)
        self.last_offsets.append(header.last_offset)
        self.newest_ms.append(max(newest, header.max_timestamp))
        self.records += header.record_count


def is_partition_directory(path: str) -> bool:
    return any(offset_of_name(name) is not None for name in os.listdir(path))


def find_logs(path: str) -> list[str]:
    """The partition directories at or directly below the path, in order."""
    if is_partition_directory(path):
        return [path]
    candidates = sorted(entry.path for entry in os.scandir(path) if entry.is_dir())
    return [candidate for candidate in candidates if is_partition_directory(candidate)]


def verify_log(
    directory: str, *, open_records: bool = False, progress: Callable[[int], None] | None = None
) -> LogReport:
    """Read every batch and every index of a log. `progress` gets the bytes read so far."""
    problems: list[Problem] = []
    names = sorted(os.listdir(directory))
    bases = [offset for name in names if (offset := offset_of_name(name)) is not None and name[20:] == LOG_SUFFIX]
    batches = records = size_bytes = 0
    next_offset = bases[0] if bases else 0
    for base in bases:
        path = os.path.join(directory, file_stem(base) + LOG_SUFFIX)
        if base < next_offset:
            problems.append(Problem(path, f"begins at offset {base}, but the segment before it ends at {next_offset}"))
        segment = _read_segment(path, base, open_records, problems)
        batches += len(segment.positions)
        records += segment.records
        size_bytes += segment.valid_bytes
        next_offset = max(next_offset, segment.next_offset)
        _check_offset_index(directory, segment, problems, is_last=base == bases[-1])
        _check_time_index(directory, segment, problems, is_last=base == bases[-1])
        _check_txn_index(directory, segment, path, problems)
        if progress is not None:
            progress(size_bytes)
    _check_other_files(directory, names, set(bases), problems)
    first_offset = bases[0] if bases else 0
    return LogReport(directory, len(bases), batches, records, size_bytes, first_offset, next_offset, tuple(problems))


def _read_segment(path: str, base_offset: int, open_records: bool, problems: list[Problem]) -> _SegmentMap:
    segment = _SegmentMap(base_offset)
    scan = SegmentScan(SegmentFile(path, READ), base_offset, verify_from=0)
    for position, header in scan:
        segment.add(position, header)
        if open_records:
            problems += (
                Problem(path, f"position {position}: {text}") for text in _find_bad_records(scan, position, header)
            )
    if scan.problem is not None:
        lost = scan.file_size - scan.valid_bytes
        problems.append(
            Problem(
                path,
                f"position {scan.valid_bytes}: {scan.problem}; {lost} bytes from offset {scan.next_offset} on are lost",
            )
        )
    segment.valid_bytes = scan.valid_bytes
    segment.next_offset = scan.next_offset
    return segment


def _find_bad_records(scan: SegmentScan, position: int, header: BatchHeader) -> Iterator[str]:
    last = header.base_offset - 1
    try:
        for record in iterate_records(scan.batch(position, header)):
            if not last < record.offset <= header.last_offset:
                yield f"record at offset {record.offset} after {last} in a batch up to {header.last_offset}"
                return
            last = record.offset
    except BrokerError as error:
        yield f"records cannot be read: {error.message}"


def _read_entries(
    path: str, entry: Struct, *, is_last: bool, has_batches: bool, problems: list[Problem]
) -> list[tuple[int, ...]]:
    """The entries of an index file; the unused zeros at the end of one that Kafka has open are not entries."""
    content = read_whole(path)
    if content is None:
        if has_batches and not is_last:
            problems.append(Problem(path, "is missing; it is made again when it is needed", is_damage=False))
        return []
    if len(content) % entry.size:
        problems.append(Problem(path, f"its size {len(content)} is not a multiple of {entry.size}"))
        content = content[: len(content) - len(content) % entry.size]
    used = len(content.rstrip(b"\x00"))
    if is_last and len(content) - used > 2 * entry.size:
        content = content[: -(-used // entry.size) * entry.size]
    return list(entry.iter_unpack(content))


def _check_offset_index(directory: str, segment: _SegmentMap, problems: list[Problem], *, is_last: bool) -> None:
    path = os.path.join(directory, file_stem(segment.base_offset) + OFFSET_INDEX_SUFFIX)
    has_batches = len(segment.positions) > 0
    previous = -1
    for relative, position in _read_entries(
        path, OFFSET_ENTRY, is_last=is_last, has_batches=has_batches, problems=problems
    ):
        offset = segment.base_offset + relative
        at = bisect_left(segment.positions, position)
        if at == len(segment.positions) or segment.positions[at] != position:
            problems.append(Problem(path, f"offset {offset}: no batch begins at position {position}"))
        elif segment.last_offsets[at] != offset:
            problems.append(
                Problem(path, f"offset {offset}: the batch at position {position} ends at {segment.last_offsets[at]}")
            )
        if position <= previous and previous > 0:
            problems.append(Problem(path, f"offset {offset}: position {position} follows {previous}"))
        previous = position


def _check_time_index(directory: str, segment: _SegmentMap, problems: list[Problem], *, is_last: bool) -> None:
    path = os.path.join(directory, file_stem(segment.base_offset) + TIME_INDEX_SUFFIX)
    previous = -1
    for timestamp, relative in _read_entries(
        path, TIME_ENTRY, is_last=is_last, has_batches=len(segment.positions) > 0, problems=problems
    ):
        offset = segment.base_offset + relative
        at = bisect_left(segment.last_offsets, offset)
        if at == len(segment.last_offsets):
            if timestamp >= 0 and (timestamp or relative):
                problems.append(Problem(path, f"timestamp {timestamp}: the segment does not reach offset {offset}"))
        elif segment.newest_ms[at] != timestamp:
            problems.append(
                Problem(path, f"timestamp {timestamp}: the newest up to offset {offset} is {segment.newest_ms[at]}")
            )
        if timestamp < previous:
            problems.append(Problem(path, f"timestamp {timestamp} follows {previous}"))
        previous = timestamp


def _check_txn_index(directory: str, segment: _SegmentMap, log_path: str, problems: list[Problem]) -> None:
    path = os.path.join(directory, file_stem(segment.base_offset) + TXN_INDEX_SUFFIX)
    try:
        entries = TxnIndex(path, segment.base_offset).load()
    except CorruptIndex as error:
        problems.append(Problem(path, str(error)))
        return
    if not entries:
        return
    scan = SegmentScan(SegmentFile(log_path, READ), segment.base_offset)
    aborts = {
        header.last_offset: header.producer_id
        for position, header in scan
        if header.is_control and _is_abort(scan.batch(position, header))
    }
    problems += (
        Problem(path, f"producer {entry.producer_id} has no abort marker at offset {entry.last_offset}")
        for entry in entries
        if aborts.get(entry.last_offset) != entry.producer_id
    )


def _is_abort(batch: memoryview) -> bool:
    try:
        marker = decode_end_txn_marker(batch)
    except BrokerError:
        return False
    return marker is not None and not marker.commit


def _check_other_files(directory: str, names: list[str], bases: set[int], problems: list[Problem]) -> None:
    for name in names:
        path = os.path.join(directory, name)
        offset = offset_of_name(name)
        if name == LEADER_EPOCH_FILE:
            _check_leader_epochs(path, problems)
        elif offset is None:
            continue
        elif name[20:] == SNAPSHOT_SUFFIX:
            try:
                decode_snapshot(read_whole(path) or b"")
            except CorruptSnapshot as error:
                problems.append(Problem(path, str(error)))
        elif name[20:] not in SEGMENT_SUFFIXES:
            problems.append(Problem(path, "is left over; the next start removes or finishes it", is_damage=False))
        elif offset not in bases:
            problems.append(Problem(path, "belongs to no segment; the next start removes it", is_damage=False))


def _check_leader_epochs(path: str, problems: list[Problem]) -> None:
    try:
        entries = decode_checkpoint(read_whole(path) or b"")
    except CorruptIndex as error:
        problems.append(Problem(path, str(error)))
        return
    for earlier, later in pairwise(entries):
        if later.epoch <= earlier.epoch or later.start_offset < earlier.start_offset:
            problems.append(Problem(path, f"epoch {later.epoch} at {later.start_offset} follows {earlier.epoch}"))
