"""What the checkers of Raft are shown."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.raft.core.log_index import LogIndex
from tidelog.raft.core.messages import Entry, LogEnd


class BecameLeader(NamedTuple):
    node_id: int
    term: int
    log: LogIndex
    """As it is at the moment of the election; it changes afterwards."""


class Wrote(NamedTuple):
    """An entry went into a member's log."""

    node_id: int
    before: LogEnd
    """The entry before it."""
    entry: Entry


class CommitAdvanced(NamedTuple):
    node_id: int
    term: int
    """Of the member, when it learnt of it."""
    last: LogEnd
    """The last entry that is committed."""


class Applied(NamedTuple):
    node_id: int
    end_offset: int
    digest: int
    """Of everything applied so far, by an entry or by a snapshot."""


class Acknowledged(NamedTuple):
    """A client got the answer that its proposal is committed."""

    node_id: int
    end_offset: int
    payload: bytes


class ReadServed(NamedTuple):
    node_id: int
    offset: int
    acknowledged_before: int
    """The furthest offset that any client knew to be committed when the read began."""
