"""What happens to a member: the inputs of the machine."""

from __future__ import annotations

from tidelog.model.value import Value
from tidelog.raft.core.members import Member, MemberSet
from tidelog.raft.core.messages import Message, SnapshotId

ReplyTo = object
"""Made by the shell for each request it hands in; comes back in the `Reply` effect."""

Token = object
"""Made by the shell for a command; comes back when the command is decided."""


class Receive(Value, kw_only=True):
    """A message of another node of the same cluster."""

    source_id: int
    source_directory: bytes
    destination_directory: bytes
    """The member that the sender took this node for."""
    message: Message
    reply_to: ReplyTo = None


class Tick(Value):
    """Nothing but time has passed: due at `deadline_ms`, harmless at any other moment."""


class Persisted(Value):
    """This write and all before it are on disk."""

    write_id: int


class Unreachable(Value):
    """A request to this member got no response, so whatever was sent behind it may be lost too."""

    node_id: int


class LeaderGone(Value):
    """The leader's port is closed: a hint that it ended, which may be wrong. It makes an election come
    sooner, and decides nothing about its outcome."""

    node_id: int


class Propose(Value):
    token: Token
    data: bytes
    """A batch that has no offset yet."""
    record_count: int


class AddLearner(Value):
    token: Token
    member: Member


class AddVoter(Value):
    """The member becomes a learner first (unless it is one), and a voter as soon as it has caught up."""

    token: Token
    member: Member
    timeout_ms: int


class RemoveMember(Value):
    token: Token
    node_id: int


class TransferLeadership(Value):
    token: Token
    target_id: int | None
    """None: the voter that is furthest."""


class ReadIndex(Value):
    token: Token


class SnapshotTaken(Value):
    """A snapshot of the applied state is on disk; the log may begin later now."""

    snapshot: SnapshotId
    log_start_offset: int


class SnapshotInstalled(Value):
    """The leader's snapshot is on disk and has taken the place of the log."""

    snapshot: SnapshotId
    members: MemberSet


class SnapshotRefused(Value):
    """What the leader sent is no snapshot that can be read."""

    snapshot: SnapshotId


Event = (
    Receive
    | Tick
    | Persisted
    | Unreachable
    | LeaderGone
    | Propose
    | AddLearner
    | AddVoter
    | RemoveMember
    | TransferLeadership
    | ReadIndex
    | SnapshotTaken
    | SnapshotInstalled
    | SnapshotRefused
)
