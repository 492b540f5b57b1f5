"""Changing the members while the quorum works: one server at a time, so that any two majorities share a voter.

A change is an entry; it is in force as soon as it is in the log, and the next may begin when it is committed. A leader
makes none before it has committed an entry of its own term. A new voter is a learner first and is promoted when it has
caught up, so that it never holds up commits it cannot follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.model.errors import ErrorCode
from tidelog.model.limits import RAFT_MEMBERS_MAX
from tidelog.model.value import Value
from tidelog.raft.core import replication, transfer
from tidelog.raft.core.effects import Done, Refused
from tidelog.raft.core.members import ANY_DIRECTORY, Member, MemberSet
from tidelog.raft.core.messages import MEMBERS_RECORDS, EntryKind
from tidelog.raft.core.settings import NEVER_MS, NOBODY

if TYPE_CHECKING:
    from tidelog.raft.core.events import AddLearner, AddVoter, RemoveMember, Token
    from tidelog.raft.core.machine import RaftMachine
    from tidelog.raft.core.progress import Progress


class Promotion(Value):
    """A learner that becomes a voter when it has caught up."""

    token: Token
    member: Member
    deadline_ms: int


class PendingChanges:
    """What was asked of the leader and is not done yet."""

    __slots__ = ("promotion", "waiting")

    def __init__(self) -> None:
        self.waiting: list[tuple[Token, int]] = []
        """Commands that are done when the configuration that ends at this offset is committed."""
        self.promotion: Promotion | None = None

    @property
    def deadline_ms(self) -> int:
        return NEVER_MS if self.promotion is None else self.promotion.deadline_ms

    def fail_all(self, raft: RaftMachine) -> None:
        """The leadership is over: what is in the log may be committed by another."""
        tokens = [token for token, _ in self.waiting]
        if self.promotion is not None:
            tokens.append(self.promotion.token)
        self.waiting, self.promotion = [], None
        for token in tokens:
            raft.outbox.tell(Refused(token, ErrorCode.NOT_CONTROLLER, "The leadership ended."))


def _is_refused(raft: RaftMachine, token: Token) -> bool:
    """Whether no change at all can be made now; then the token has its refusal."""
    if not raft.is_leader:
        raft.outbox.tell(Refused(token, ErrorCode.NOT_CONTROLLER, "This node does not lead the quorum."))
    elif not raft.is_active_leader or raft.members_offset > raft.commit_offset or raft.changes.promotion is not None:
        text = "Another change of the members is under way; try again."
        raft.outbox.tell(Refused(token, ErrorCode.REQUEST_TIMED_OUT, text, passes=True))
    elif raft.transfer is not None:
        text = "The leadership is being handed over; try again."
        raft.outbox.tell(Refused(token, ErrorCode.REQUEST_TIMED_OUT, text, passes=True))
    else:
        return False
    return True


def _begin(raft: RaftMachine, token: Token, change: Callable[[], MemberSet | tuple[ErrorCode, str]]) -> None:
    if _is_refused(raft, token):
        return
    outcome = change()
    if isinstance(outcome, MemberSet):
        raft.changes.waiting.append((token, _write(raft, outcome)))
    else:
        raft.outbox.tell(Refused(token, *outcome))


def _write(raft: RaftMachine, members: MemberSet) -> int:
    end_offset = raft.append_own(EntryKind.MEMBERS, MEMBERS_RECORDS, members=members)
    replication.maybe_commit(raft)
    replication.send_due(raft)
    return end_offset


def _full(members: MemberSet, node_id: int) -> bool:
    return members.find(node_id) is None and len(members.voters) + len(members.learners) >= RAFT_MEMBERS_MAX


def add_learner(raft: RaftMachine, event: AddLearner) -> None:
    def change() -> MemberSet | tuple[ErrorCode, str]:
        member, members = event.member, raft.members
        if members.is_voter(member.node_id):
            return ErrorCode.DUPLICATE_VOTER, f"Node {member.node_id} is a voter already."
        if _full(members, member.node_id):
            return ErrorCode.POLICY_VIOLATION, f"There are {RAFT_MEMBERS_MAX} members, and no more can be."
        return members.with_learner(member)

    _begin(raft, event.token, change)


def add_voter(raft: RaftMachine, event: AddVoter) -> None:
    if _is_refused(raft, event.token):
        return
    member, members = event.member, raft.members
    known = members.find(member.node_id)
    is_same = known is not None and known.is_same_node(member.node_id, member.directory_id)
    if is_same and members.is_voter(member.node_id):
        text = f"Node {member.node_id} is a voter already."
        raft.outbox.tell(Refused(event.token, ErrorCode.DUPLICATE_VOTER, text))
    elif members.voter_ids == (member.node_id,):
        text = "The only voter cannot be replaced."
        raft.outbox.tell(Refused(event.token, ErrorCode.INVALID_REQUEST, text))
    elif _full(members, member.node_id):
        text = f"There are {RAFT_MEMBERS_MAX} members, and no more can be."
        raft.outbox.tell(Refused(event.token, ErrorCode.POLICY_VIOLATION, text))
    else:
        raft.changes.promotion = Promotion(event.token, member, raft.now_ms + event.timeout_ms)
        if not is_same or known != member:
            # With another disk under a known id, this takes the vote from the old one: one change at a time.
            _write(raft, members.with_learner(member))
        else:
            check_promotion(raft, raft.progress[member.node_id])


def remove(raft: RaftMachine, event: RemoveMember) -> None:
    def change() -> MemberSet | tuple[ErrorCode, str]:
        members = raft.members
        if members.find(event.node_id) is None:
            return ErrorCode.VOTER_NOT_FOUND, f"Node {event.node_id} is no member of the quorum."
        if members.voter_ids == (event.node_id,):
            return ErrorCode.INVALID_REQUEST, "The last voter cannot be removed."
        return members.without(event.node_id)

    _begin(raft, event.token, change)


def check_promotion(raft: RaftMachine, progress: Progress) -> None:
    """The learner has all that is committed and the change that made it one is committed too: it may vote."""
    promotion = raft.changes.promotion
    if (
        raft.is_leader
        and promotion is not None
        and promotion.member.node_id == progress.member.node_id
        and raft.members_offset <= raft.commit_offset <= progress.match_offset
    ):
        raft.changes.promotion = None
        raft.changes.waiting.append((promotion.token, _write(raft, raft.members.with_voter(promotion.member))))


def check_deadlines(raft: RaftMachine) -> None:
    promotion = raft.changes.promotion
    if promotion is not None and raft.now_ms >= promotion.deadline_ms:
        raft.changes.promotion = None
        text = f"Node {promotion.member.node_id} has not caught up in time; it stays a learner."
        raft.outbox.tell(Refused(promotion.token, ErrorCode.REQUEST_TIMED_OUT, text))


def committed(raft: RaftMachine) -> None:
    """The commit offset has moved: changes are done, the next step of one may begin, a leader may be none any more."""
    changes = raft.changes
    for token, end_offset in changes.waiting:
        if end_offset <= raft.commit_offset:
            raft.outbox.tell(Done(token, end_offset))
    changes.waiting = [each for each in changes.waiting if each[1] > raft.commit_offset]
    if raft.members_offset > raft.commit_offset:
        return
    if not raft.members.is_voter(raft.node_id):
        successor = transfer.furthest_voter(raft)
        if successor is not None:
            transfer.send_timeout_now(raft, raft.progress[successor])
        raft.become_follower(raft.term, NOBODY)
    elif changes.promotion is not None:
        progress = raft.progress.get(changes.promotion.member.node_id)
        if progress is not None:
            check_promotion(raft, progress)
    else:
        pin_directories(raft)


def pin_directories(raft: RaftMachine) -> None:
    """Voters that were configured by id alone get their directories written down as they are heard of: from then on a
    node that lost its disk, and with it its votes, cannot pass for the one it was."""
    if not raft.is_active_leader or all(member.directory_id != ANY_DIRECTORY for member in raft.members):
        return
    if raft.members_offset > raft.commit_offset or raft.changes.promotion is not None:
        return  # One change at a time; the end of that one asks again.

    def pin(member: Member) -> Member:
        if member.directory_id != ANY_DIRECTORY:
            return member
        progress = raft.progress.get(member.node_id)
        directory_id = raft.settings.directory_id if progress is None else progress.directory_id
        return member.replace(directory_id=directory_id)

    members = MemberSet(tuple(map(pin, raft.members.voters)), tuple(map(pin, raft.members.learners)))
    if members != raft.members:
        _write(raft, members)


def first_members(raft: RaftMachine) -> MemberSet:
    """The members that the node was started with, as the log first has them: with the directories that voted for it."""
    members = raft.members
    for node_id, directory_id in {**raft.vote_directories, raft.node_id: raft.settings.directory_id}.items():
        voter = members.find(node_id)
        if voter is not None:
            members = members.with_voter(voter.replace(directory_id=directory_id))
    return members
