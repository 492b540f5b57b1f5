"""Leadership on request: the leader takes no more proposals, brings its successor up to date, and tells it to go on.

If the successor has not taken over within an election timeout, the leader leads on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.errors import ErrorCode
from tidelog.model.value import Value
from tidelog.raft.core import election, replication
from tidelog.raft.core.effects import Done, Refused, Role, Send
from tidelog.raft.core.messages import TimeoutNowRequest, TimeoutNowResponse

if TYPE_CHECKING:
    from tidelog.raft.core.events import Receive, Token, TransferLeadership
    from tidelog.raft.core.machine import RaftMachine
    from tidelog.raft.core.progress import Progress


class Transfer(Value):
    token: Token
    target_id: int
    deadline_ms: int


def begin(raft: RaftMachine, event: TransferLeadership) -> None:
    target_id = furthest_voter(raft) if event.target_id is None else event.target_id
    if not raft.is_leader:
        raft.outbox.tell(Refused(event.token, ErrorCode.NOT_CONTROLLER, "This node does not lead the quorum."))
    elif raft.transfer is not None:
        raft.outbox.tell(Refused(event.token, ErrorCode.REQUEST_TIMED_OUT, "The leadership is being handed over."))
    elif target_id == raft.node_id:
        raft.outbox.tell(Done(event.token, raft.commit_offset))
    elif target_id is None or not raft.members.is_voter(target_id):
        raft.outbox.tell(Refused(event.token, ErrorCode.VOTER_NOT_FOUND, "There is no such other voter."))
    else:
        deadline_ms = raft.now_ms + raft.settings.election_timeout_ms
        raft.transfer = Transfer(event.token, target_id, deadline_ms)
        replication.send_due(raft)
        check_target(raft, raft.progress[target_id])


def furthest_voter(raft: RaftMachine) -> int | None:
    """Of those that answered lately the one with most of the log; None when there is none."""
    alive_ms = raft.now_ms - raft.settings.election_timeout_ms
    others = [p for p in raft.progress.values() if raft.members.is_voter(p.member.node_id) and p.contact_ms >= alive_ms]
    best = max(others, key=lambda each: each.match_offset, default=None)
    return None if best is None else best.member.node_id


def check_target(raft: RaftMachine, progress: Progress) -> None:
    """A successor that has everything is asked to campaign."""
    moving = raft.transfer
    if moving is not None and moving.target_id == progress.member.node_id and raft.is_leader:
        if not raft.members.is_voter(moving.target_id):
            end(raft, succeeded=False)
        elif progress.match_offset == raft.log.end_offset:
            send_timeout_now(raft, progress)


def send_timeout_now(raft: RaftMachine, progress: Progress) -> None:
    request = TimeoutNowRequest(term=raft.term, request_id=raft.next_request_id())
    raft.outbox.send(Send(progress.member, request), overtakes_entries=True)


def check_deadline(raft: RaftMachine) -> None:
    if raft.transfer is not None and raft.now_ms >= raft.transfer.deadline_ms:
        end(raft, succeeded=False)


def end(raft: RaftMachine, *, succeeded: bool) -> None:
    """A newer term is as good as success: this node leads no more."""
    moving, raft.transfer = raft.transfer, None
    if moving is None:
        return
    if succeeded:
        raft.outbox.tell(Done(moving.token, raft.commit_offset))
    else:
        text = f"Node {moving.target_id} did not take over in time."
        raft.outbox.tell(Refused(moving.token, ErrorCode.REQUEST_TIMED_OUT, text))


def take_over(raft: RaftMachine, event: Receive, request: TimeoutNowRequest) -> None:
    """The leader wants this node to succeed it. Only a follower of that leader does."""
    raft.reply(event.reply_to, TimeoutNowResponse(term=raft.term, request_id=request.request_id))
    if (
        request.term == raft.term
        and raft.role is Role.FOLLOWER
        and raft.leader_id == event.source_id
        and raft.is_voter
        and raft.incoming is None
    ):
        election.campaign(raft, is_transfer=True)
