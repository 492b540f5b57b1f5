"""One member of a Raft quorum: `step(event, now_ms) -> effects`, `deadline_ms()` for the next tick.

No socket, file, clock, thread or chance inside: time is an argument, randomness a source that was handed in. Here are
the state and the module that handles each event; the rules are in the modules beside this one, by subject.

What must hold (the simulator checks it): one leader per term; logs that share an entry share everything before it; a
leader has every committed entry; no two members apply different entries at one offset.
"""

from __future__ import annotations

from typing import Protocol

from tidelog.model.value import Value
from tidelog.raft.core import admission, election, membership, reads, replication, snapshots, transfer
from tidelog.raft.core.configurations import BOOTSTRAP_OFFSET, Configurations
from tidelog.raft.core.effects import Committed, Effect, HardState, MembersChanged, Reply, Role, RoleChanged
from tidelog.raft.core.events import (
    AddLearner,
    AddVoter,
    Event,
    LeaderGone,
    Persisted,
    Propose,
    ReadIndex,
    Receive,
    RemoveMember,
    ReplyTo,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    Tick,
    TransferLeadership,
    Unreachable,
)
from tidelog.raft.core.log_index import LogIndex
from tidelog.raft.core.members import ANY_DIRECTORY, MemberSet
from tidelog.raft.core.messages import Entry, EntryKind, Response, SnapshotId
from tidelog.raft.core.outbox import Outbox
from tidelog.raft.core.progress import Progress
from tidelog.raft.core.settings import LONG_AGO_MS, NEVER_MS, NOBODY, MachineSettings

NO_OFFSET = 2**62
"""Behind every log."""
CONTROL_ENTRY_BYTES = 256
"""Roughly what an entry of the quorum's own takes; only windows are counted by it."""


class Recovered(Value, kw_only=True):
    """What was on disk."""

    hard_state: HardState
    log: LogIndex
    configurations: Configurations
    snapshot: SnapshotId | None


class Randomness(Protocol):
    """What election timeouts are drawn from: `random.Random`, or anything like it."""

    def randrange(self, stop: int) -> int: ...


class RaftMachine:
    def __init__(self, settings: MachineSettings, recovered: Recovered, random: Randomness, now_ms: int) -> None:
        self.settings = settings
        self.random = random
        self.now_ms = now_ms
        self.term = recovered.hard_state.term
        self.voted_for = recovered.hard_state.voted_for
        self.voted_directory = recovered.hard_state.voted_directory
        self.log = recovered.log
        self.configurations = recovered.configurations
        self.snapshot = recovered.snapshot
        """The newest on disk."""
        self.commit_offset = 0 if recovered.snapshot is None else recovered.snapshot.end_offset
        self.outbox = Outbox(self.log.end_offset)
        self.role = Role.FOLLOWER
        self.leader_id = NOBODY
        self.leader_contact_ms = LONG_AGO_MS
        """When a leader of this term was last heard."""
        self.hurries_until_ms = LONG_AGO_MS
        """The leader is known to be gone: until then elections follow one another sooner."""
        self.votes: dict[int, bool] = {}
        """Of the running (pre-)election."""
        self.vote_directories: dict[int, bytes] = {}
        """By each voter that answered in it: its data directory."""
        self.is_transfer_election = False
        self.progress: dict[int, Progress] = {}
        """Of every other member while this node leads."""
        self.term_start_offset = NO_OFFSET
        """While it leads: the end of its first entry. What is below is committed once this is."""
        self.quorum_check_ms = NEVER_MS
        """While it leads: when it looks next whether a majority still answers."""
        self.round = 0
        self.last_request_id = 0
        self.reads: list[reads.PendingRead] = []
        self.transfer: transfer.Transfer | None = None
        self.changes = membership.PendingChanges()
        self.incoming: snapshots.Incoming | None = None
        """The snapshot a leader is sending to this node."""
        self.election_deadline_ms = NEVER_MS
        election.reset_election_deadline(self)
        if self.members.voter_ids == (self.node_id,):
            self.election_deadline_ms = now_ms

    # -- what is known -------------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    @property
    def members(self) -> MemberSet:
        return self.configurations.current.members

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    @property
    def is_active_leader(self) -> bool:
        """The member leads and has committed an entry of its own term: it knows what is committed."""
        return self.is_leader and self.commit_offset >= self.term_start_offset

    @property
    def is_voter(self) -> bool:
        """A voter of the configuration in force, with the disk that it names."""
        return any(m.is_same_node(self.node_id, self.settings.directory_id) for m in self.members.voters)

    @property
    def may_campaign(self) -> bool:
        """Voters may; and one whose removal is in its log but not committed must, for it may be the only one that can
        win: the others may lack that entry, and its longer log keeps them from winning. The configuration before the
        newest is committed, or the newest would not have been made."""
        if self.is_voter or self.members_offset <= self.commit_offset:
            return self.is_voter
        return any(
            m.is_same_node(self.node_id, self.settings.directory_id) for m in self.configurations.previous.voters
        )

    def deadline_ms(self) -> int:
        """When the next Tick is due."""
        if not self.is_leader:
            return self.election_deadline_ms
        due = [self.quorum_check_ms]
        due += [replication.due_ms(self, progress) for progress in self.progress.values()]
        if self.transfer is not None:
            due.append(self.transfer.deadline_ms)
        due.append(self.changes.deadline_ms)
        return min(due)

    # -- stepping ------------------------------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Effects are carried out in list order, before the next step."""
        self.now_ms = max(now_ms, self.now_ms)
        match event:
            case Receive():
                admission.receive(self, event)
            case Persisted(write_id):
                self.outbox.persisted(write_id)
                replication.maybe_commit(self)
            case Tick():
                self._tick()
            case Propose():
                replication.propose(self, event)
            case Unreachable(node_id):
                replication.become_unreachable(self, node_id)
            case LeaderGone(node_id):
                election.miss_leader(self, node_id)
            case ReadIndex(token):
                reads.begin(self, token)
            case SnapshotTaken(snapshot, log_start_offset):
                snapshots.taken(self, snapshot, log_start_offset)
            case SnapshotInstalled(snapshot, members):
                snapshots.installed(self, snapshot, members)
            case SnapshotRefused(snapshot):
                snapshots.refused(self, snapshot)
            case AddLearner():
                membership.add_learner(self, event)
            case AddVoter():
                membership.add_voter(self, event)
            case RemoveMember():
                membership.remove(self, event)
            case TransferLeadership():
                transfer.begin(self, event)
        return self.outbox.finish(self.log.end_offset)

    def _tick(self) -> None:
        if not self.is_leader:
            if self.now_ms >= self.election_deadline_ms:
                election.time_out(self)
            return
        if self.now_ms >= self.quorum_check_ms:
            election.check_quorum(self)
        if self.is_leader:
            transfer.check_deadline(self)
            membership.check_deadlines(self)
            replication.send_due(self)

    # -- shared by the rules -------------------------------------------------------------------------------------------

    def next_request_id(self) -> int:
        self.last_request_id += 1
        return self.last_request_id

    def reply(self, reply_to: ReplyTo, response: Response, *, overtakes_entries: bool = False) -> None:
        self.outbox.send(Reply(reply_to, response), overtakes_entries=overtakes_entries)

    def save_hard_state(self) -> None:
        self.outbox.save(HardState(self.term, self.voted_for, self.voted_directory))

    def become_follower(self, term: int, leader_id: int) -> None:
        """Also the way of a follower into a newer term, or to a leader it did not know."""
        was = (self.role, self.term, self.leader_id)
        if self.is_leader:
            self.outbox.drop_appends()
            reads.fail_all(self)
            transfer.end(self, succeeded=term > self.term)
            self.changes.fail_all(self)
            self.progress.clear()
            self.term_start_offset, self.quorum_check_ms = NO_OFFSET, NEVER_MS
        if term > self.term:
            self.term, self.voted_for, self.voted_directory = term, NOBODY, ANY_DIRECTORY
            self.save_hard_state()
        self.role = Role.FOLLOWER
        self.leader_id = leader_id
        if was[0] is not Role.FOLLOWER or leader_id != NOBODY:
            election.reset_election_deadline(self)
        if was != (self.role, self.term, self.leader_id):
            self.outbox.tell(RoleChanged(self.role, self.term, self.leader_id))

    def append_own(
        self, kind: EntryKind, record_count: int, data: bytes = b"", members: MemberSet | None = None
    ) -> int:
        """A leader's new entry; where it ends."""
        base = self.log.end_offset
        self.append_entry(Entry(base, base + record_count, self.term, kind, data, members))
        return base + record_count

    def append_entry(self, entry: Entry) -> None:
        self.log.append(entry.end_offset, entry.term, len(entry.data) or CONTROL_ENTRY_BYTES)
        self.outbox.write(entry)
        if entry.kind is EntryKind.MEMBERS:
            assert entry.members is not None, "a configuration names its members"
            self.configurations.append(entry.end_offset, entry.members)
            self.use_members()

    def truncate_log(self, offset: int) -> None:
        assert offset >= self.commit_offset, "what is committed is never cut"
        self.log.truncate_to(offset)
        self.outbox.truncate(offset)
        if self.configurations.truncate_to(offset):
            self.use_members()

    def use_members(self) -> None:
        """Another configuration is in force from now on."""
        if self.is_leader:
            replication.follow_members(self)
        elif self.election_deadline_ms == NEVER_MS:
            election.reset_election_deadline(self)
        self.outbox.tell(MembersChanged(self.members))

    def advance_commit(self, offset: int) -> None:
        if offset <= self.commit_offset:
            return
        self.commit_offset = offset
        self.outbox.tell(Committed(offset))

    @property
    def members_offset(self) -> int:
        return self.configurations.current.end_offset

    @property
    def is_bootstrapping(self) -> bool:
        """The configuration in force is in no log yet."""
        return self.members_offset == BOOTSTRAP_OFFSET
