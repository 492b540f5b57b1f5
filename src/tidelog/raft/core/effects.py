"""What a member wants done: the outputs of the machine. They are carried out in list order.

Anything that must not be seen before a write is on disk is held back inside the machine until `Persisted` says so:
every effect in the list may be carried out at once.
"""

from __future__ import annotations

from enum import Enum

from tidelog.model.errors import ErrorCode
from tidelog.model.value import Value
from tidelog.raft.core.events import ReplyTo, Token
from tidelog.raft.core.members import Member, MemberSet
from tidelog.raft.core.messages import Entry, Request, Response, SnapshotId


class Role(Enum):
    """FOLLOWER -> PRE_CANDIDATE -> CANDIDATE -> LEADER, and from anywhere back. A transfer skips the pre-vote."""

    FOLLOWER = "follower"
    """Takes what a leader sends. The only role of a node that is no voter."""
    PRE_CANDIDATE = "pre-candidate"
    """Asks whether an election could be won, without a new term, so that no leader is disturbed."""
    CANDIDATE = "candidate"
    """Has a new term and its own vote in it."""
    LEADER = "leader"


class HardState(Value):
    """What must survive a crash beside the log."""

    term: int
    voted_for: int
    """-1 for none."""
    voted_directory: bytes


class Persist(Value):
    """Write in this order: term and vote, truncation, entries. Report `Persisted` once all of it is synced.

    Writes are numbered and carried out one after the other; a report stands for all before it.
    """

    write_id: int
    hard_state: HardState | None
    truncate_to: int | None
    entries: tuple[Entry, ...]


class Send(Value):
    destination: Member
    request: Request


class SendAppend(Value, kw_only=True):
    """An AppendRequest whose entries the shell takes from the log: those from `prev_offset` up to `end_offset`."""

    destination: Member
    term: int
    request_id: int
    prev_offset: int
    prev_term: int
    end_offset: int
    commit_offset: int
    round: int


class SendSnapshot(Value, kw_only=True):
    """A SnapshotRequest whose data the shell takes from the snapshot, from `position` on."""

    destination: Member
    term: int
    request_id: int
    snapshot: SnapshotId
    position: int


class Reply(Value):
    reply_to: ReplyTo
    response: Response


class Committed(Value):
    """Everything below is decided for good and may be applied."""

    offset: int


class RoleChanged(Value):
    role: Role
    term: int
    leader_id: int
    """-1 for none known."""


class MembersChanged(Value):
    """In force now, committed or not."""

    members: MemberSet


class Proposed(Value):
    """The command is an entry of the log now; it is done when `Committed` passes `end_offset` in this term."""

    token: Token
    end_offset: int


class Refused(Value):
    """The command was not carried out, and nothing of it is left but, where the text says so, a learner."""

    token: Token
    code: ErrorCode
    text: str
    passes: bool = False
    """The reason will be gone in a moment: the same command may then be carried out."""


class Done(Value):
    """The command is carried out: members changed and committed, leadership given up, or a read may be served at
    `offset`."""

    token: Token
    offset: int


class StoreSnapshotPart(Value):
    """Write it (unsynced) behind what has come of this snapshot; position 0 begins it again."""

    snapshot: SnapshotId
    position: int
    data: bytes


class InstallSnapshot(Value):
    """All parts have come: check it, make it durable, put it in the place of the log. Report Installed or Refused."""

    snapshot: SnapshotId


class RefusedPeer(Value):
    """A node that is no member spoke to this one, or refused it: worth one line in the log."""

    node_id: int
    reason: str


class FoundersMissing(Value):
    """The cluster cannot be founded yet: these first voters have not agreed to it."""

    node_ids: tuple[int, ...]


Effect = (
    Persist
    | Send
    | SendAppend
    | SendSnapshot
    | Reply
    | Committed
    | RoleChanged
    | MembersChanged
    | Proposed
    | Refused
    | Done
    | StoreSnapshotPart
    | InstallSnapshot
    | RefusedPeer
    | FoundersMissing
)
