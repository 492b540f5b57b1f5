"""Read index: a leader proves that it still leads before it says how far the log is committed.

A read waits for a round of responses that was begun after it. No clock takes part, so drifting ones do no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.errors import ErrorCode
from tidelog.model.value import Value
from tidelog.raft.core import replication
from tidelog.raft.core.effects import Done, Refused

if TYPE_CHECKING:
    from tidelog.raft.core.events import Token
    from tidelog.raft.core.machine import RaftMachine

NOT_BEGUN = -1


class PendingRead(Value):
    token: Token
    offset: int
    round: int
    """A majority must answer this round or a later one; NOT_BEGUN while the leader does not know what is committed."""


def begin(raft: RaftMachine, token: Token) -> None:
    if not raft.is_leader:
        raft.outbox.tell(Refused(token, ErrorCode.NOT_CONTROLLER, "This node does not lead the quorum."))
    elif raft.is_active_leader:
        raft.reads.append(PendingRead(token, raft.commit_offset, _begin_round(raft)))
        check(raft)
    else:
        raft.reads.append(PendingRead(token, 0, NOT_BEGUN))


def _begin_round(raft: RaftMachine) -> int:
    raft.round += 1
    for progress in raft.progress.values():
        if raft.members.is_voter(progress.member.node_id):
            replication.send_heartbeat(raft, progress)
    return raft.round


def committed(raft: RaftMachine, *, was_active: bool) -> None:
    """The first commit of the term lets the reads begin that came before it."""
    if not was_active and raft.is_active_leader and raft.reads:
        number = _begin_round(raft)
        raft.reads = [PendingRead(read.token, raft.commit_offset, number) for read in raft.reads]
        check(raft)


def check(raft: RaftMachine) -> None:
    if not raft.reads:
        return
    waiting = []
    for read in raft.reads:
        answered = [node_id for node_id, each in raft.progress.items() if each.round >= read.round]
        if read.round != NOT_BEGUN and raft.members.is_majority([raft.node_id, *answered]):
            raft.outbox.tell(Done(read.token, read.offset))
        else:
            waiting.append(read)
    raft.reads = waiting


def fail_all(raft: RaftMachine) -> None:
    for read in raft.reads:
        raft.outbox.tell(Refused(read.token, ErrorCode.NOT_CONTROLLER, "The leadership ended."))
    raft.reads = []
