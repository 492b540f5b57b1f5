"""What members say to one another. A request gets exactly one response, which names the request it answers.

`term` is always the sender's own term. Positions are offsets of the metadata log: an entry is a record batch, and "up
to offset N" means every batch below N. The codec bounds sizes and checks fields, the machine checks meaning.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from tidelog.model.value import Value
from tidelog.raft.core.members import MemberSet

LEADER_CHANGE_RECORDS = 1
MEMBERS_RECORDS = 2


class EntryKind(IntEnum):
    RECORDS = 0
    """Records of the state machine."""
    LEADER_CHANGE = 1
    """The first entry of a term: what it commits, it commits with everything before."""
    MEMBERS = 2
    """A new configuration; in force from the moment it is in the log."""


class Entry(Value):
    """`base_offset < end_offset`; the next entry begins where this one ends."""

    base_offset: int
    end_offset: int
    term: int
    kind: EntryKind
    data: bytes = b""
    """The batch. Of a leader's new entry: without offset and term, empty unless the kind is RECORDS."""
    members: MemberSet | None = None
    """Of a MEMBERS entry."""


class SnapshotId(NamedTuple):
    end_offset: int
    """The snapshot stands for every entry below."""
    term: int
    """Of the last of these entries."""


class LogEnd(NamedTuple):
    """How far a log has come; compared term first, as votes are given."""

    term: int
    offset: int


class VoteRequest(Value, kw_only=True):
    term: int
    request_id: int
    is_pre_vote: bool
    """Asks whether a vote in the next term would be given; the answer binds no voter."""
    is_transfer: bool
    """The leader asked for this election: its recent life signs are no reason to refuse."""
    log_end: LogEnd


class VoteResponse(Value, kw_only=True):
    term: int
    request_id: int
    is_pre_vote: bool
    granted: bool


class AppendRequest(Value, kw_only=True):
    term: int
    request_id: int
    prev_offset: int
    prev_term: int
    """The sender's log has the entry that ends at `prev_offset` from this term."""
    entries: tuple[Entry, ...]
    commit_offset: int
    round: int
    """Echoed: what a leader waits for before it answers a read."""


class AppendResponse(Value, kw_only=True):
    term: int
    request_id: int
    success: bool
    match_offset: int
    """On success: this log is the leader's up to here, and on disk. Otherwise: an offset worth trying next ..."""
    match_term: int
    """... and the term of the entry that ends there."""
    round: int


class SnapshotRequest(Value, kw_only=True):
    """A part of a snapshot, for a member that needs entries the leader no longer has."""

    term: int
    request_id: int
    snapshot: SnapshotId
    position: int
    data: bytes
    is_last: bool


class SnapshotResponse(Value, kw_only=True):
    term: int
    request_id: int
    snapshot: SnapshotId
    next_position: int
    """Where the receiver wants to go on; it may be back at 0."""
    is_installed: bool
    """The receiver has everything below the end of the snapshot."""


class TimeoutNowRequest(Value, kw_only=True):
    """The leader to its successor: ask for votes at once."""

    term: int
    request_id: int


class TimeoutNowResponse(Value, kw_only=True):
    term: int
    request_id: int


class RefusalResponse(Value, kw_only=True):
    """The sender is no member, or the request was meant for a node with another disk. Not counted in any way."""

    term: int
    request_id: int
    reason: str


Request = VoteRequest | AppendRequest | SnapshotRequest | TimeoutNowRequest
Response = VoteResponse | AppendResponse | SnapshotResponse | TimeoutNowResponse | RefusalResponse
Message = Request | Response
