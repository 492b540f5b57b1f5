"""A simulated member: the real machine on a simulated disk, clock and network. It can crash and come back."""

from __future__ import annotations

from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.clock import DriftingClock
from tests.simulation.disk import Disk, DiskFaults
from tests.simulation.observations import Acknowledged, Applied, BecameLeader, CommitAdvanced, ReadServed, Wrote
from tests.simulation.raft_image import Install, RaftImage, Snapshot, TakeSnapshot, Truncate

from tidelog.raft.core.effects import (
    Committed,
    Done,
    Effect,
    InstallSnapshot,
    Persist,
    Proposed,
    Refused,
    Reply,
    Role,
    RoleChanged,
    Send,
    SendAppend,
    SendSnapshot,
    StoreSnapshotPart,
)
from tidelog.raft.core.events import (
    Event,
    Persisted,
    Propose,
    ReadIndex,
    Receive,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    Tick,
    Unreachable,
)
from tidelog.raft.core.machine import RaftMachine
from tidelog.raft.core.members import ANY_DIRECTORY, Member, MemberSet
from tidelog.raft.core.messages import (
    AppendRequest,
    Entry,
    EntryKind,
    LogEnd,
    Message,
    Response,
    SnapshotId,
    SnapshotRequest,
)
from tidelog.raft.core.settings import MachineSettings

if TYPE_CHECKING:
    from tests.simulation.raft_cluster import RaftCluster

PART_BYTES = 8
TELLS_OF_LOSS = 0.3
"""How often a sender learns that a request was lost, as by a connection that breaks."""


class SimulatedMember:
    def __init__(self, cluster: RaftCluster, member: Member, bootstrap: MemberSet, faults: DiskFaults) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.member = member
        self.bootstrap = bootstrap
        self.disk: Disk[RaftImage] = Disk(self.world, faults, RaftImage)
        self.clock = DriftingClock(self.world, cluster.profile.clock_drift)
        self.machine: RaftMachine | None = None
        self.incarnation = 0
        self.applied_offset = 0
        self.digest = 0
        self.forgets_votes = False
        """A mutation: terms and votes are never synced."""
        self._written = 0
        self._is_syncing = False
        self._private: list[Wrote] = []
        """Entries of a term that is not on disk: no message of it has left, so a crash may still undo all of it."""
        self._parts: bytes = b""
        self._proposals: dict[int, bytes] = {}
        self._tick_ms = float("inf")
        self._events: list[Event] = []
        self._is_stepping = False

    @property
    def node_id(self) -> int:
        return self.member.node_id

    @property
    def is_up(self) -> bool:
        return self.machine is not None

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.incarnation += 1
        image = self.disk.current
        timeout_ms = self.cluster.profile.election_timeout_ms
        settings = MachineSettings(
            node_id=self.node_id,
            directory_id=self.member.directory_id,
            election_timeout_ms=timeout_ms,
            heartbeat_interval_ms=timeout_ms // 5,
            request_timeout_ms=timeout_ms * 2,
            append_bytes_max=64,
            in_flight_requests_max=4,
            in_flight_bytes_max=160,
            uncommitted_bytes_max=4000,
        )
        snapshot = image.snapshot
        self.applied_offset = 0 if snapshot is None else snapshot.id.end_offset
        self.digest = 0 if snapshot is None else snapshot.digest
        self._written, self._is_syncing, self._parts = 0, False, b""
        self._private.clear()
        self._proposals.clear()
        self._tick_ms = float("inf")
        random = Random(self.world.random.getrandbits(64))
        self.machine = RaftMachine(settings, image.recover(self.bootstrap), random, self.clock.now_ms)
        self.disk.durable = image.copy()
        self.world.note(self, f"starts at term {self.machine.term}, log {self.machine.log.log_end}")
        self._schedule()

    def crash(self) -> None:
        self.world.note(self, "crashes")
        self.machine = None
        self.incarnation += 1
        self.disk.crash()

    def __str__(self) -> str:
        return f"node {self.node_id}"

    # -- stepping ------------------------------------------------------------------------------------------------------

    def step(self, event: Event) -> None:
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events and self.machine is not None:
                following = self._events.pop(0)
                for effect in self.machine.step(following, self.clock.now_ms):
                    self._perform(effect)
        finally:
            self._events.clear()
            self._is_stepping = False
        cluster = self.cluster
        if not cluster.faults_are_over and self.world.random.random() < cluster.profile.step_crash:
            self.crash()
            cluster.restart_later(self)
        else:
            self._schedule()

    def _schedule(self) -> None:
        assert self.machine is not None, "the member is up"
        delay_ms = self.clock.world_delay_ms(self.machine.deadline_ms())
        if self.world.now_ms + delay_ms >= self._tick_ms or delay_ms > 1e9:
            return
        self._tick_ms = due_ms = self.world.now_ms + delay_ms
        incarnation = self.incarnation

        def tick() -> None:
            # An earlier one may have taken its place.
            if incarnation == self.incarnation and self.machine is not None and self._tick_ms == due_ms:
                self._tick_ms = float("inf")
                self.step(Tick())

        self.world.after(delay_ms, tick)

    # -- effects -------------------------------------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        assert self.machine is not None, "the member is up"
        match effect:
            case Persist():
                self._persist(effect)
            case Send(destination, request):
                self._send(destination, request)
            case SendAppend():
                self._send(
                    effect.destination,
                    AppendRequest(
                        term=effect.term,
                        request_id=effect.request_id,
                        prev_offset=effect.prev_offset,
                        prev_term=effect.prev_term,
                        entries=self.disk.current.read(effect.prev_offset, effect.end_offset),
                        commit_offset=effect.commit_offset,
                        round=effect.round,
                    ),
                )
            case SendSnapshot():
                self._send_snapshot(effect)
            case Reply(reply_to, response):
                assert callable(reply_to), "made by deliver"
                reply_to(response)
            case Committed(offset):
                self._apply(offset)
            case Proposed(token, end_offset):
                assert isinstance(token, bytes), "clients propose bytes"
                self._proposals[end_offset] = token
            case RoleChanged(role, term, leader_id):
                self.world.note(self, f"{role.value} in term {term}, leader {leader_id}")
                if role is Role.LEADER:
                    self.world.observe(BecameLeader(self.node_id, term, self.machine.log))
                else:
                    self._proposals.clear()
            case Done(token, offset):
                if isinstance(token, int):
                    self.world.observe(ReadServed(self.node_id, offset, token))
                else:
                    self.world.note(self, f"done: {token}")
            case Refused(token, _, text):
                if isinstance(token, str):
                    self.world.note(self, f"refused: {token}: {text}")
            case StoreSnapshotPart(_, position, data):
                self._parts = self._parts[:position] + data
            case InstallSnapshot(snapshot):
                self._install(snapshot)

    def _persist(self, persist: Persist) -> None:
        if persist.hard_state is not None:
            if self.forgets_votes:
                self.disk.current.apply(persist.hard_state)
            else:
                self.disk.write(persist.hard_state)
        if persist.truncate_to is not None:
            self.disk.write(Truncate(persist.truncate_to))
        for entry in persist.entries:
            image = self.disk.current
            before = LogEnd(image.entries[-1].term if image.entries else image.start.term, image.end_offset)
            if entry.kind is EntryKind.LEADER_CHANGE and not entry.data:
                entry = Entry(entry.base_offset, entry.end_offset, entry.term, entry.kind, b"L%d" % self.node_id)
            self.disk.write(entry)
            self._private.append(Wrote(self.node_id, before, entry))
        self._show_written()
        self._written = persist.write_id
        if not self._is_syncing:
            self._sync()

    def _show_written(self) -> None:
        term = self.disk.current.hard_state.term if self.forgets_votes else self.disk.durable.hard_state.term
        while self._private and self._private[0].entry.term <= term:
            self.world.observe(self._private.pop(0))

    def _sync(self) -> None:
        self._is_syncing = True
        write_id, incarnation = self._written, self.incarnation

        def synced() -> None:
            if incarnation == self.incarnation and self.machine is not None:
                self._is_syncing = False
                self._show_written()
                if self._written > write_id:
                    self._sync()
                self.step(Persisted(write_id))

        self.disk.sync(synced)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _send(self, destination: Member, message: Message) -> None:
        incarnation = self.incarnation

        def respond(response: Response, source: Member) -> None:
            if incarnation == self.incarnation and self.machine is not None:
                self.step(
                    Receive(
                        source_id=source.node_id,
                        source_directory=source.directory_id,
                        destination_directory=ANY_DIRECTORY,
                        message=response,
                    )
                )

        def unreachable() -> None:
            if incarnation == self.incarnation and self.machine is not None:
                self.step(Unreachable(destination.node_id))

        def deliver() -> None:
            self.cluster.deliver(self.member, destination, message, respond)

        is_sent = self.cluster.network.send(self.node_id, destination.node_id, deliver)
        if not is_sent and self.world.random.random() < TELLS_OF_LOSS:
            self.world.after(self.world.random.uniform(1.0, 50.0), unreachable)

    # -- state machine and snapshots -----------------------------------------------------------------------------------

    def _apply(self, commit_offset: int) -> None:
        assert self.machine is not None, "the member is up"
        log = self.machine.log
        self.world.observe(
            CommitAdvanced(self.node_id, self.machine.term, LogEnd(log.term_before(commit_offset), commit_offset))
        )
        for entry in self.disk.current.read(self.applied_offset, commit_offset):
            assert entry.base_offset == self.applied_offset, "entries are applied without gaps"
            self.digest = _digest(self.digest, entry)
            self.applied_offset = entry.end_offset
            self.world.observe(Applied(self.node_id, self.applied_offset, self.digest))
            payload = self._proposals.pop(entry.end_offset, None)
            if payload is not None:
                assert payload == entry.data, "what is committed is what was proposed"
                self.cluster.acknowledged = max(self.cluster.acknowledged, entry.end_offset)
                self.world.observe(Acknowledged(self.node_id, entry.end_offset, payload))

    def take_snapshot(self, *, keep_bytes: int) -> None:
        """Of what is applied; some of the log before it is kept."""
        machine = self.machine
        assert machine is not None, "the member is up"
        current = self.disk.current
        if self.applied_offset <= (0 if current.snapshot is None else current.snapshot.id.end_offset):
            return
        if self.applied_offset > current.end_offset:
            return
        snapshot_id = SnapshotId(self.applied_offset, machine.log.term_before(self.applied_offset))
        members = machine.configurations.at(self.applied_offset).members
        start = machine.log.last_end_before(max(machine.log.start_offset, self.applied_offset - keep_bytes))
        self.disk.write_through(TakeSnapshot(Snapshot(snapshot_id, members, self.digest), start))
        self.world.note(self, f"snapshot {snapshot_id}, log from {start}")
        self.step(SnapshotTaken(snapshot_id, start))

    def _content(self, snapshot: Snapshot) -> bytes:
        self.cluster.snapshots[snapshot.id, snapshot.digest] = snapshot
        return f"{snapshot.id.end_offset}/{snapshot.id.term}/{snapshot.digest}".encode()

    def _send_snapshot(self, effect: SendSnapshot) -> None:
        snapshot = self.disk.current.snapshot
        if snapshot is None or snapshot.id != effect.snapshot:
            return
        content = self._content(snapshot)
        data = content[effect.position : effect.position + PART_BYTES]
        self._send(
            effect.destination,
            SnapshotRequest(
                term=effect.term,
                request_id=effect.request_id,
                snapshot=effect.snapshot,
                position=effect.position,
                data=data,
                is_last=effect.position + len(data) >= len(content),
            ),
        )

    def _install(self, snapshot_id: SnapshotId) -> None:
        if self.world.random.random() < 0.1:
            self.step(SnapshotRefused(snapshot_id))
            return
        offset, term, digest = (int(part) for part in self._parts.decode().split("/"))
        assert (offset, term) == snapshot_id, "the parts belong together"
        snapshot = self.cluster.snapshots[snapshot_id, digest]
        self.disk.write_through(Install(snapshot))
        self.applied_offset, self.digest = offset, digest
        self.world.note(self, f"installs snapshot {snapshot_id}")
        self.world.observe(Applied(self.node_id, offset, digest))
        self.step(SnapshotInstalled(snapshot_id, snapshot.members))

    # -- clients -------------------------------------------------------------------------------------------------------

    def propose(self, payload: bytes) -> None:
        self.step(Propose(payload, payload, 1 + payload[-1] % 3))

    def read(self) -> None:
        self.step(ReadIndex(self.cluster.acknowledged))


def _digest(before: int, entry: Entry) -> int:
    content = b"%d/%d/%d/%s" % (before, entry.end_offset, entry.term, entry.data)
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big")


def describe_state(members: list[SimulatedMember]) -> str:
    lines = []
    for each in members:
        machine = each.machine
        if machine is None:
            lines.append(f"{each}: down")
        else:
            lines.append(
                f"{each}: {machine.role.value} term {machine.term} leader {machine.leader_id} "
                f"log {machine.log.log_end} commit {machine.commit_offset} voters {machine.members.voter_ids} learners "
                f"{[member.node_id for member in machine.members.learners]}"
            )
    return "\n".join(lines)
