"""The core broken on purpose, one rule at a time: what the simulator is worth shows in how soon it notices.

Each mutation patches one function or class of `tidelog.raft.core`; it is undone when the block ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tidelog.raft.core import election, membership, reads, replication
from tidelog.raft.core.effects import Done
from tidelog.raft.core.events import Receive, Token
from tidelog.raft.core.log_index import LogIndex
from tidelog.raft.core.machine import RaftMachine
from tidelog.raft.core.messages import VoteRequest
from tidelog.raft.core.outbox import Outbox


@contextmanager
def _patched(owner: object, name: str, replacement: object) -> Iterator[None]:
    with patch.object(owner, name, replacement):
        yield


def commits_old_terms_by_count() -> Any:
    """A majority is taken for a commit, whatever term wrote the entry."""

    def maybe_commit(raft: RaftMachine) -> None:
        if raft.is_leader and raft.members.voters:
            matches = sorted(
                raft.outbox.durable_offset if node_id == raft.node_id else raft.progress[node_id].match_offset
                for node_id in raft.members.voter_ids
            )
            offset = matches[len(matches) - raft.members.majority]
            if offset > raft.commit_offset:
                was_active = raft.is_active_leader
                raft.advance_commit(offset)
                membership.committed(raft)
                if raft.is_leader:
                    reads.committed(raft, was_active=was_active)

    return _patched(replication, "maybe_commit", maybe_commit)


def acknowledges_before_sync() -> Any:
    """Messages do not wait for the writes they rest on."""

    def send_at_once(self: Outbox, effect: Any, *, overtakes_entries: bool = False) -> None:
        self.tell(effect)

    return _patched(Outbox, "send", send_at_once)


def leader_counts_unsynced() -> Any:
    """A leader takes its own entries for durable as soon as they are in its log."""

    def maybe_commit(raft: RaftMachine) -> None:
        durable = raft.outbox.durable_offset
        raft.outbox.durable_offset = raft.log.end_offset
        original(raft)
        raft.outbox.durable_offset = durable

    original = replication.maybe_commit
    return _patched(replication, "maybe_commit", maybe_commit)


def votes_without_comparing_logs() -> Any:
    """The first candidate gets the vote, however short its log is."""
    original = election.answer_vote

    def answer_vote(raft: RaftMachine, event: Receive, request: VoteRequest) -> None:
        original(raft, event, request.replace(log_end=max(request.log_end, raft.log.log_end)))

    return _patched(election, "answer_vote", answer_vote)


def votes_twice_in_a_term() -> Any:
    """The vote of a term is forgotten as soon as it is given."""
    original = election._grants_vote

    def grants(raft: RaftMachine, event: Receive, request: VoteRequest) -> bool:
        raft.voted_for = election.NOBODY
        return original(raft, event, request)

    return _patched(election, "_grants_vote", grants)


def appends_without_comparing_terms() -> Any:
    """A follower takes entries wherever its log has an entry that ends there."""

    def matches(self: LogIndex, offset: int, term: int) -> bool:
        return self.start_offset <= offset <= self.end_offset and self._is_end(offset)

    return _patched(LogIndex, "matches", matches)


def changes_members_at_any_time() -> Any:
    """Changes of the members do not wait for one another, nor for the leader's first commit."""

    def is_refused(raft: RaftMachine, token: Token) -> bool:
        return not raft.is_leader

    return _patched(membership, "_is_refused", is_refused)


def reads_without_asking() -> Any:
    """A leader serves reads without asking whether it still is one."""

    def begin(raft: RaftMachine, token: Token) -> None:
        if raft.is_leader:
            raft.outbox.tell(Done(token, raft.commit_offset))

    return _patched(reads, "begin", begin)
