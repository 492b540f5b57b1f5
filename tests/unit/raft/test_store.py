"""The metadata on disk: what survives, what is cut, what is set aside and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.raft.driver import directory, member, voters

from tidelog.metadata.batch import decode_metadata_batch
from tidelog.raft.core.effects import HardState, Persist
from tidelog.raft.core.members import ANY_DIRECTORY, NO_MEMBERS, MemberSet
from tidelog.raft.core.messages import Entry, EntryKind, SnapshotId
from tidelog.raft.quorum_state import decode_quorum_state, encode_quorum_state
from tidelog.raft.snapshot_file import DamagedSnapshot, snapshot_file_name
from tidelog.raft.store import Loaded, QuorumStore
from tidelog.records.builder import NewRecord, build_batch
from tidelog.runtime.system import System
from tidelog.storage.log_directory_identity import DirectoryRefused

MEMBERS = voters(1, 2, 3)


class Disk:
    """A store that can be opened again and again, written to as a machine would."""

    def __init__(self, path: Path, bootstrap: MemberSet = MEMBERS) -> None:
        self.path = path
        self.bootstrap = bootstrap
        self.store = QuorumStore(path, segment_bytes=1024 * 1024, system=System(lambda: 1000))
        self.loaded = self.store.open(bootstrap)
        self._written = 0

    @property
    def directory(self) -> Path:
        return self.store.path

    @property
    def log_file(self) -> Path:
        return sorted(self.directory.glob("*.log"))[-1]

    def append(self, *values: bytes, term: int = 1, truncate_to: int | None = None) -> int:
        base = self.store.log.log_end_offset if truncate_to is None else truncate_to
        data = build_batch([NewRecord(None, value, 1) for value in values])
        self.write(Entry(base, base + len(values), term, EntryKind.RECORDS, data), truncate_to=truncate_to)
        return base + len(values)

    def write(
        self, *entries: Entry, hard_state: HardState | None = None, truncate_to: int | None = None, sync: bool = True
    ) -> None:
        self._written += 1
        self.store.write(Persist(self._written, hard_state, truncate_to, entries), MEMBERS, 1)
        if sync:
            pending = self.store.begin_sync()
            pending.run()
            self.store.finish_sync(pending)

    def crash(self) -> Loaded:
        """The process is gone; what it wrote is there."""
        self.store = QuorumStore(self.path, segment_bytes=1024 * 1024, system=System(lambda: 1000))
        self.loaded = self.store.open(self.bootstrap)
        return self.loaded

    def values(self, start: int = 0) -> list[bytes]:
        data = self.store.read_batches(start, self.store.log.log_end_offset)
        return [value for batch in data for value in decode_metadata_batch(batch.data)]

    def snapshot(self, offset: int, term: int, *values: bytes) -> SnapshotId:
        snapshot = SnapshotId(offset, term)
        self.store.begin_snapshot()
        self.store.write_snapshot(snapshot, MEMBERS, values)
        self.store.adopt_snapshot(snapshot, 0)
        return snapshot


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_term_vote_entries_and_members_come_back(disk: Disk) -> None:
    disk.write(
        Entry(0, 1, 4, EntryKind.LEADER_CHANGE),
        Entry(1, 3, 4, EntryKind.MEMBERS, b"", MemberSet(voters(1, 2).voters, (member(5),))),
        hard_state=HardState(4, 2, directory(2)),
    )
    disk.append(b"a", b"b", term=4)
    recovered = disk.crash().recovered
    assert recovered.hard_state == HardState(4, 2, directory(2))
    assert list(recovered.log.entries()) == [(4, 1), (4, 3), (4, 5)]
    assert recovered.configurations.current.members == MemberSet(voters(1, 2).voters, (member(5),))
    assert disk.values() == [b"a", b"b"]


def test_a_torn_end_is_cut(disk: Disk) -> None:
    disk.append(b"kept")
    disk.append(b"torn" * 100)
    with disk.log_file.open("r+b") as file:
        file.truncate(disk.log_file.stat().st_size - 7)
    recovered = disk.crash().recovered
    assert recovered.log.end_offset == 1
    assert disk.values() == [b"kept"]
    assert disk.append(b"next") == 2


def test_a_conflicting_end_is_replaced(disk: Disk) -> None:
    disk.append(b"a")
    disk.append(b"b")
    disk.append(b"c")
    disk.append(b"B", b"C", term=3, truncate_to=1)
    recovered = disk.crash().recovered
    assert list(recovered.log.entries()) == [(1, 1), (3, 3)]
    assert disk.values() == [b"a", b"B", b"C"]


def test_a_sync_that_a_truncation_overtook_does_not_stand_for_what_came_after(disk: Disk) -> None:
    disk.append(b"a")
    data = build_batch([NewRecord(None, b"b", 1)])
    disk.write(Entry(1, 2, 1, EntryKind.RECORDS, data), sync=False)
    pending = disk.store.begin_sync()
    disk.write(Entry(1, 2, 2, EntryKind.RECORDS, data), truncate_to=1, sync=False)
    pending.run()
    disk.store.finish_sync(pending)
    assert disk.store.log.recovery_point == 1
    assert disk.store.begin_sync().flush.files, "there is something left to sync"


def test_what_was_synced_before_a_truncation_outlives_a_failure_after_it(disk: Disk) -> None:
    disk.append(b"a")
    for offset, value in ((1, b"b"), (2, b"c")):
        data = build_batch([NewRecord(None, value, 1)])
        disk.write(Entry(offset, offset + 1, 1, EntryKind.RECORDS, data), sync=False)
    pending = disk.store.begin_sync()
    disk.write(Entry(2, 3, 2, EntryKind.RECORDS, data), truncate_to=2, sync=False)
    pending.run()
    disk.store.finish_sync(pending)
    # Of the entry below the truncation others have heard now.
    disk.store.forget_unsynced()
    assert disk.store.open(MEMBERS).recovered.log.end_offset == 2


def test_a_log_without_quorum_state_continues_its_terms(disk: Disk) -> None:
    """As a node of one leaves it that knew no quorum yet."""
    disk.append(b"a", term=6)
    recovered = disk.crash().recovered
    assert recovered.hard_state == HardState(6, -1, ANY_DIRECTORY)
    assert recovered.configurations.current.members == MEMBERS


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b'{"leaderEpoch":1,"votedId":-5,"data_version":1}'])
def test_a_vote_that_cannot_be_read_stops_the_start(disk: Disk, content: bytes) -> None:
    (disk.directory / "quorum-state").write_bytes(content)
    with pytest.raises(DirectoryRefused, match="quorum-state is damaged"):
        disk.crash()


def test_a_vote_with_a_flipped_digit_stops_the_start(disk: Disk) -> None:
    disk.write(hard_state=HardState(4, 2, directory(2)))
    path = disk.directory / "quorum-state"
    path.write_bytes(path.read_bytes().replace(b'"votedId":2', b'"votedId":3'))
    with pytest.raises(DirectoryRefused, match="checksum"):
        disk.crash()


def test_quorum_state_is_the_json_that_kafka_keeps() -> None:
    state = HardState(9, 3, directory(3))
    fields = json.loads(encode_quorum_state(state))
    assert (fields["leaderEpoch"], fields["votedId"], fields["data_version"]) == (9, 3, 1)
    assert decode_quorum_state(encode_quorum_state(state)) == state
    kafkas = b'{"leaderId":1,"leaderEpoch":9,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}'
    assert decode_quorum_state(kafkas) == HardState(9, -1, ANY_DIRECTORY)


# -- snapshots -------------------------------------------------------------------------------------------------------


def test_a_snapshot_stands_for_the_log_before_it(disk: Disk) -> None:
    for number in range(10):
        disk.append(b"%d" % number)
    disk.snapshot(5, 1, b"state of 5")
    disk.snapshot(8, 1, b"state of 8")
    loaded = disk.crash()
    assert loaded.content is not None
    assert loaded.content.values == [b"state of 8"]
    assert loaded.recovered.snapshot == SnapshotId(8, 1)
    assert loaded.recovered.log.end_offset == 10


def test_a_damaged_snapshot_is_done_without(disk: Disk) -> None:
    for number in range(10):
        disk.append(b"%d" % number)
    disk.snapshot(5, 1, b"state of 5")
    newest = disk.directory / snapshot_file_name(disk.snapshot(8, 1, b"state of 8"))
    content = bytearray(newest.read_bytes())
    content[-100] ^= 1
    newest.write_bytes(content)
    loaded = disk.crash()
    assert loaded.recovered.snapshot == SnapshotId(5, 1)
    assert loaded.content is not None
    assert loaded.content.values == [b"state of 5"]
    assert (disk.directory / (newest.name + ".damaged")).exists()
    assert disk.crash().recovered.log.end_offset == 10


def test_a_log_that_begins_behind_every_readable_snapshot_is_refused(disk: Disk) -> None:
    for number in range(10):
        disk.append(b"%d" % number)
    paths = []
    for offset in (10, 12):
        paths.append(disk.directory / snapshot_file_name(disk.snapshot(offset, 1, b"state")))
        disk.append(b"x", b"y")
    assert disk.store.log.log_start_offset == 10
    for path in paths:
        path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DirectoryRefused, match=r"records from 0 to 10 are in no readable snapshot .*cut short"):
        disk.crash()


def test_a_segment_is_on_disk_before_the_next_begins(disk: Disk) -> None:
    """A recovery refuses a log whose closed segments are torn, and no crash may make it one."""
    data = build_batch([NewRecord(None, b"x" * 600_000, 1)])
    for offset in range(3):
        disk.write(Entry(offset, offset + 1, 1, EntryKind.RECORDS, data), sync=False)
        assert disk.store.log.recovery_point == disk.store.log.active_segment.base_offset == offset
    disk.store.begin_snapshot()
    assert disk.store.log.recovery_point == 3
    assert disk.crash().recovered.log.end_offset == 3


def test_a_snapshot_without_the_log_behind_it_is_enough(disk: Disk) -> None:
    disk.append(b"a")
    disk.snapshot(1, 1, b"one")
    disk.store.write_snapshot(SnapshotId(40, 3), MEMBERS, [b"forty"])
    recovered = disk.crash().recovered
    assert recovered.log.log_end == (3, 40)
    assert recovered.hard_state.term == 3


def send(source: Disk, target: Disk, snapshot: SnapshotId) -> None:
    position, is_last = 0, False
    while not is_last:
        part = source.store.read_snapshot_part(snapshot, position)
        assert part is not None
        data, is_last = part
        target.store.store_snapshot_part(snapshot, position, data)
        position += len(data)


def test_a_leaders_snapshot_takes_the_place_of_the_log(tmp_path: Path) -> None:
    leader, follower = Disk(tmp_path / "1"), Disk(tmp_path / "2", NO_MEMBERS)
    for number in range(10):
        leader.append(b"%d" % number, term=5)
    follower.append(b"astray", b"and longer than the snapshot", *[b"x"] * 20, term=2)
    snapshot = leader.snapshot(10, 5, *[b"value" * 100] * 3000)
    send(leader, follower, snapshot)
    assert follower.store.read_incoming(snapshot).values == [b"value" * 100] * 3000
    follower.store.install_snapshot(snapshot)
    loaded = follower.crash()
    assert loaded.recovered.log.log_end == (5, 10)
    assert loaded.recovered.configurations.current.members == MEMBERS


def test_a_crash_while_a_snapshot_is_installed_leaves_the_snapshot(tmp_path: Path) -> None:
    """Its name is there, the log it was to replace is too."""
    leader, follower = Disk(tmp_path / "1"), Disk(tmp_path / "2", NO_MEMBERS)
    for number in range(10):
        leader.append(b"%d" % number, term=5)
    follower.append(*[b"astray"] * 30, term=2)
    snapshot = leader.snapshot(10, 5, b"state")
    name = snapshot_file_name(snapshot)
    (follower.directory / name).write_bytes((leader.directory / name).read_bytes())
    assert follower.crash().recovered.log.log_end == (5, 10)


def test_a_snapshot_that_came_damaged_is_not_installed(tmp_path: Path) -> None:
    leader, follower = Disk(tmp_path / "1"), Disk(tmp_path / "2")
    leader.append(b"a")
    follower.append(b"mine")
    snapshot = leader.snapshot(1, 1, b"state")
    part = leader.store.read_snapshot_part(snapshot, 0)
    assert part is not None
    follower.store.store_snapshot_part(snapshot, 0, part[0][:-1])
    with pytest.raises(DamagedSnapshot):
        follower.store.read_incoming(snapshot)
    assert follower.values() == [b"mine"]


def test_what_was_never_synced_is_forgotten_after_a_failure(disk: Disk) -> None:
    disk.append(b"synced")
    data = build_batch([NewRecord(None, b"lost", 1)])
    disk.write(Entry(1, 2, 1, EntryKind.RECORDS, data), sync=False)
    disk.store.forget_unsynced()
    assert disk.store.open(MEMBERS).recovered.log.end_offset == 1
