"""What a member keeps on disk: `__cluster_metadata-0` with the log, snapshots of the state, and `quorum-state`.

Synchronous; owned by the event loop's thread, except what says that it may run in another. A snapshot shortens the log;
the one before it and the log behind that are kept, so that a damaged snapshot can be done without.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tidelog.config.setting import INT64_MAX
from tidelog.config.topic import TopicConfig
from tidelog.metadata.image import METADATA_TOPIC
from tidelog.model.errors import BrokerError
from tidelog.model.ids import TopicPartition
from tidelog.model.limits import RAFT_SNAPSHOT_PART_BYTES
from tidelog.model.value import Value
from tidelog.raft.core.configurations import BOOTSTRAP_OFFSET, Configuration, Configurations
from tidelog.raft.core.effects import HardState, Persist
from tidelog.raft.core.log_index import UNKNOWN_TERM, LogIndex
from tidelog.raft.core.machine import Recovered
from tidelog.raft.core.members import ANY_DIRECTORY, MemberSet
from tidelog.raft.core.messages import EntryKind, SnapshotId
from tidelog.raft.core.settings import NOBODY
from tidelog.raft.entries import decode_entry, encode_entry
from tidelog.raft.quorum_state import DamagedQuorumState, read_quorum_state, write_quorum_state
from tidelog.raft.snapshot_file import (
    DamagedSnapshot,
    SnapshotContent,
    decode_snapshot,
    encode_snapshot,
    parse_snapshot_name,
    snapshot_file_name,
)
from tidelog.records.batch import BatchHeader, CorruptBatch, decode_header, iterate_headers
from tidelog.runtime.disk import Folder
from tidelog.runtime.system import SYSTEM, System
from tidelog.storage.errors import StorageFailure
from tidelog.storage.files import read_whole, remove_if_present, sync_directory
from tidelog.storage.log import Log
from tidelog.storage.log_directory_identity import DirectoryRefused
from tidelog.storage.log_flusher import PendingFlush
from tidelog.storage.reserved_room import ReservedRoom
from tidelog.storage.segment_file import READ, WRITE_NEW, WRITE_OR_CREATE, SegmentFile
from tidelog.telemetry.logs import get_logger

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The id Kafka gives this topic."""

READ_BYTES = 1024 * 1024
SNAPSHOTS_KEPT = 2
PART_SUFFIX = ".part"
ROOM_BYTES = 128 * 1024

logger = get_logger("tidelog.raft")


class Loaded(Value):
    """What was on disk when the store was opened."""

    recovered: Recovered
    content: SnapshotContent | None
    """Of the snapshot, when there is one."""


class PendingSync:
    """The part of a sync that waits for the disk."""

    __slots__ = ("directory", "flush", "hard_state")

    def __init__(self, directory: str, hard_state: HardState | None, flush: PendingFlush) -> None:
        self.directory = directory
        self.hard_state = hard_state
        self.flush = flush

    def run(self) -> None:
        """May run in another thread. StorageFailure: nothing is known of what was to be synced."""
        try:
            if self.hard_state is not None:
                write_quorum_state(self.directory, self.hard_state, self.flush.disk)
        except OSError as error:
            raise StorageFailure(f"quorum-state cannot be written: {error}") from error
        self.flush.sync()


class Batch(NamedTuple):
    header: BatchHeader
    data: bytes


class QuorumStore:
    def __init__(self, data_directory: Path, *, segment_bytes: int, system: System = SYSTEM) -> None:
        self.path = data_directory / str(METADATA_PARTITION)
        self.directory = str(self.path)
        self._system = system
        self._config = TopicConfig(
            segment_bytes=segment_bytes, segment_ms=INT64_MAX // 2, retention_ms=-1, cleanup_policy=frozenset()
        )
        self._log: Log | None = None
        self._hard_state: HardState | None = None
        """To be written with the next sync."""
        self.snapshots: list[SnapshotId] = []
        """On disk, oldest first."""
        self.bytes_since_snapshot = 0

    @property
    def log(self) -> Log:
        assert self._log is not None, "the metadata log is not open"
        return self._log

    @property
    def is_open(self) -> bool:
        return self._log is not None

    # -- opening -------------------------------------------------------------------------------------------------------

    def open(self, bootstrap: MemberSet) -> Loaded:
        """Reads what is there; DirectoryRefused, in one line, when no state can be made of it.

        A torn end of the log is cut. A snapshot that cannot be read is set aside for the one before it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            snapshot, content, damaged = self._find_snapshot()
            snapshot_end = 0 if snapshot is None else snapshot.end_offset
            self._log = log = Log.open(
                self.path,
                METADATA_PARTITION,
                self._config,
                topic_id=METADATA_TOPIC_ID,
                system=self._system,
                recovery_point=snapshot_end,
                clean_shutdown=False,
            )
            if log.log_end_offset < snapshot_end:
                # The crash came between the snapshot and the log behind it; the snapshot holds everything.
                log.rearranger.truncate_fully_and_start_at(snapshot_end)
            if log.log_start_offset > snapshot_end:
                cause = f" (after {damaged})" if damaged else ""
                raise DirectoryRefused(
                    f"the metadata in {self.path} cannot be read: records from {snapshot_end} to "
                    f"{log.log_start_offset} are in no readable snapshot{cause}"
                )
            # What is only in the page cache after a crash of the process is about to count as being on disk.
            log.flusher.flush()
            members = bootstrap if content is None or content.members is None else content.members
            offset = BOOTSTRAP_OFFSET if content is None or content.members is None else snapshot_end
            index, configurations = self._index_log(snapshot, Configuration(offset, members))
            if snapshot is not None and not index.matches(*snapshot):
                # The crash came while a leader's snapshot took the place of a log that had gone astray.
                log.rearranger.truncate_fully_and_start_at(snapshot_end)
                index, configurations = self._index_log(snapshot, Configuration(offset, members))
            hard_state = read_quorum_state(self.directory) or HardState(0, NOBODY, ANY_DIRECTORY)
        except DamagedQuorumState as error:
            raise DirectoryRefused(
                f"{self.path}/quorum-state is damaged ({error}): a node that forgot its vote may not vote; "
                "remove its data directory and let it join again"
            ) from None
        except (OSError, BrokerError) as error:
            reason = error.message if isinstance(error, BrokerError) else str(error)
            raise DirectoryRefused(f"the metadata in {self.path} cannot be read: {reason}") from error
        if index.last_term > hard_state.term:
            # The crash came before the term was synced, so no candidate has a vote in it.
            hard_state = HardState(index.last_term, NOBODY, ANY_DIRECTORY)
        return Loaded(
            Recovered(hard_state=hard_state, log=index, configurations=configurations, snapshot=snapshot), content
        )

    def _find_snapshot(self) -> tuple[SnapshotId | None, SnapshotContent | None, str]:
        """The newest readable one, and what was wrong with a newer one."""
        found: list[SnapshotId] = []
        for name in os.listdir(self.directory):
            snapshot = parse_snapshot_name(name)
            if snapshot is not None:
                found.append(snapshot)
            elif name.endswith((".tmp", PART_SUFFIX)):
                remove_if_present(os.path.join(self.directory, name))
        damaged = ""
        for snapshot in sorted(found, reverse=True):
            path = self._snapshot_path(snapshot)
            try:
                content = decode_snapshot(read_whole(path) or b"")
            except DamagedSnapshot as error:
                damaged = damaged or f"snapshot {snapshot_file_name(snapshot)}: {error}"
                logger.warning("metadata snapshot is damaged", file=snapshot_file_name(snapshot), reason=str(error))
                os.replace(path, path + ".damaged")
                found.remove(snapshot)
                continue
            self.snapshots = sorted(found)
            return snapshot, content, damaged
        return None, None, damaged

    def _index_log(self, snapshot: SnapshotId | None, first: Configuration) -> tuple[LogIndex, Configurations]:
        log = self.log
        start_term = 0 if log.log_start_offset == 0 else UNKNOWN_TERM
        if snapshot is not None and snapshot.end_offset == log.log_start_offset:
            start_term = snapshot.term
        index, configurations = LogIndex(log.log_start_offset, start_term), Configurations(first)
        self.bytes_since_snapshot = 0
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            for batch in self.read_batches(offset, log.log_end_offset):
                entry = decode_entry(batch.data, batch.header)
                if entry.base_offset != offset or entry.term < index.last_term:
                    logger.warning("metadata log is cut", offset=offset, reason=f"entry of term {entry.term} there")
                    log.rearranger.truncate_to(offset)
                    return index, configurations
                index.append(entry.end_offset, entry.term, batch.header.size_in_bytes)
                if entry.members is not None and entry.end_offset > first.end_offset:
                    configurations.append(entry.end_offset, entry.members)
                offset = entry.end_offset
                if snapshot is None or offset > snapshot.end_offset:
                    self.bytes_since_snapshot += batch.header.size_in_bytes
        return index, configurations

    # -- reading -------------------------------------------------------------------------------------------------------

    def read_batches(self, start: int, end: int, bytes_max: int = READ_BYTES) -> list[Batch]:
        """Whole batches from the offset on: at least one, and none that reaches over `end`."""
        data = self.log.reader.read(start, bytes_max, upper_offset=end, min_one_batch=True).load()
        batches = []
        for position, header in iterate_headers(data):
            if header.base_offset >= end:
                break
            if header.base_offset >= start:
                batches.append(Batch(header, data[position : position + header.size_in_bytes]))
        if not batches:
            raise CorruptBatch(f"no batch at offset {start} of the metadata log")
        return batches

    def read_bytes(self, start: int, end: int) -> bytes:
        """The batches between two ends of entries."""
        parts: list[bytes] = []
        while start < end:
            batches = self.read_batches(start, end)
            parts += (batch.data for batch in batches)
            start = batches[-1].header.next_offset
        return b"".join(parts)

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, persist: Persist, members: MemberSet, leader_id: int) -> None:
        """Into the page cache, in the order of the effect; `begin_sync` makes it last. StorageFailure when the disk
        refuses: then the log may end anywhere between its last sync and here."""
        log = self.log
        if persist.hard_state is not None:
            self._hard_state = persist.hard_state
        if persist.truncate_to is not None:
            self._truncate(persist.truncate_to)
        now_ms = self._system.wall_clock_ms()
        for entry in persist.entries:
            if entry.kind is EntryKind.RECORDS or not entry.data:
                data = encode_entry(entry, members, leader_id, now_ms)
            else:
                data = entry.data
            assert log.log_end_offset == entry.base_offset, "entries are written where the machine put them"
            if log.active_segment.size and log.active_segment.size + len(data) > self._config.segment_bytes:
                self._begin_segment()
            log.writer.append_as_leader(data, decode_header(data), entry.term, now_ms)
            self.bytes_since_snapshot += len(data)
        assert not persist.entries or log.log_end_offset == persist.entries[-1].end_offset

    def write_hard_state(self, hard_state: HardState) -> None:
        """On disk when this returns; OSError when it is refused."""
        write_quorum_state(self.directory, hard_state, self._system.disk)
        self._hard_state = None

    def has_room(self, size_bytes: int) -> bool:
        """Whether the disk is likely to take so much, and the small files that go with it."""
        return self._system.disk.room_at(self.directory).free_bytes >= size_bytes + ROOM_BYTES

    def give_up_reserve(self) -> None:
        """Room for what is written next."""
        ReservedRoom(Folder(str(self.path.parent), self._system.disk)).give_up()

    def _truncate(self, offset: int) -> None:
        """Synced at once, before anything else takes the place of what is cut: a crash may otherwise mix the two."""
        log = self.log
        log.rearranger.truncate_to(offset)
        try:
            log.active_segment.open_file().sync()
            sync_directory(self.directory, self._system.disk)
        except OSError as error:
            raise StorageFailure(f"the metadata log cannot be truncated: {error}") from error
        logger.info("metadata log truncated", offset=offset)

    def begin_sync(self) -> PendingSync:
        """`run` it in any thread, then `finish_sync`: everything written so far is then on disk."""
        hard_state, self._hard_state = self._hard_state, None
        return PendingSync(self.directory, hard_state, self.log.flusher.begin_flush())

    def finish_sync(self, sync: PendingSync) -> None:
        """What was cut meanwhile counts as synced up to there: of that others may hear now."""
        self.log.flusher.finish_flush(sync.flush)

    def forget_unsynced(self) -> None:
        """After a failure: the log is closed and ends where it was certainly on disk. Open it again."""
        if self._log is not None:
            self._truncate(self._log.recovery_point)
            self._log.close(clean=False)
            self._log = None

    # -- own snapshots -------------------------------------------------------------------------------------------------

    def _snapshot_path(self, snapshot: SnapshotId) -> str:
        return os.path.join(self.directory, snapshot_file_name(snapshot))

    def begin_snapshot(self) -> None:
        """The next segment begins where the snapshot ends, so that whole segments can go once it is written.

        The log is on disk after this: a snapshot never stands for entries that a crash could take from under it.
        StorageFailure when it cannot be synced; nothing is known then of what was to be.
        """
        self._begin_segment()

    def _begin_segment(self) -> None:
        """Synced first: a recovery refuses a log whose closed segments are torn."""
        self.log.flusher.flush()
        try:
            self.log.writer.roll()
        except StorageFailure as error:
            logger.warning("metadata log cannot begin a segment", reason=error.message)

    def write_snapshot(self, snapshot: SnapshotId, members: MemberSet, values: Iterable[bytes]) -> None:
        """Writes and syncs; touches nothing the owner uses, so it may run in another thread. OSError when it fails."""
        path = self._snapshot_path(snapshot)
        temporary = path + ".tmp"
        try:
            with SegmentFile(temporary, WRITE_NEW, self._system.disk) as file:
                position = 0
                for batch in encode_snapshot(values, members, snapshot, self._system.wall_clock_ms()):
                    file.write(batch, position)
                    position += len(batch)
                file.sync()
            os.replace(temporary, path)
        except OSError:
            remove_if_present(temporary)
            raise
        sync_directory(self.directory, self._system.disk)

    def adopt_snapshot(self, snapshot: SnapshotId, bytes_since: int) -> int:
        """The snapshot is on disk: what the one before it stands for can go. Where the log begins now."""
        self.bytes_since_snapshot = bytes_since
        self._remember(snapshot)
        if len(self.snapshots) == SNAPSHOTS_KEPT:
            self.log.rearranger.delete_old_segments(lambda segment: True, self.snapshots[0].end_offset)
        return self.log.log_start_offset

    def _remember(self, snapshot: SnapshotId) -> None:
        self.snapshots = sorted({*self.snapshots, snapshot})
        while len(self.snapshots) > SNAPSHOTS_KEPT:
            remove_if_present(self._snapshot_path(self.snapshots.pop(0)))

    # -- snapshots between members -------------------------------------------------------------------------------------

    def read_snapshot_part(self, snapshot: SnapshotId, position: int) -> tuple[bytes, bool] | None:
        """A part and whether it is the last; None when that snapshot (or that place in it) is not there."""
        try:
            file = SegmentFile(self._snapshot_path(snapshot), READ)
        except FileNotFoundError:
            return None
        with file:
            data = file.read(RAFT_SNAPSHOT_PART_BYTES, position)
            return (data, position + len(data) >= file.size_bytes()) if data else None

    def store_snapshot_part(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        flags = WRITE_NEW if position == 0 else WRITE_OR_CREATE
        try:
            with SegmentFile(self._snapshot_path(snapshot) + PART_SUFFIX, flags, self._system.disk) as file:
                file.write(data, position)
        except OSError as error:
            raise StorageFailure(f"a snapshot cannot be written: {error}") from error

    def read_incoming(self, snapshot: SnapshotId) -> SnapshotContent:
        """What has come of a snapshot; DamagedSnapshot unless it is whole and names members."""
        content = decode_snapshot(read_whole(self._snapshot_path(snapshot) + PART_SUFFIX) or b"")
        if content.members is None:
            raise DamagedSnapshot("it names no members")
        return content

    def install_snapshot(self, snapshot: SnapshotId) -> None:
        """Puts what has come, and was read, in the place of the log, for good."""
        part = self._snapshot_path(snapshot) + PART_SUFFIX
        try:
            with SegmentFile(part, READ, self._system.disk) as file:
                file.sync()
            os.replace(part, self._snapshot_path(snapshot))
            sync_directory(self.directory, self._system.disk)
            self.log.rearranger.truncate_fully_and_start_at(snapshot.end_offset)
            sync_directory(self.directory, self._system.disk)
        except OSError as error:
            raise StorageFailure(f"a snapshot cannot be installed: {error}") from error
        self._remember(snapshot)
        self.bytes_since_snapshot = 0

    def close(self, *, clean: bool = True) -> None:
        if self._log is not None:
            log, self._log = self._log, None
            log.close(clean=clean)
