"""Which messages count. The shell has checked the cluster; here it is about membership and terms.

A node that is no member is refused: one that was removed, one with a known id and another disk. But a node may be a
member of a configuration that has not come here yet. So, while no leader is heard, two things are taken from strangers:
the entries of a leader whose term is not behind, and the vote request of one whose log is ahead of this one. A
node without members, which waits to be taken in, takes messages of all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.raft.core import election, replication, snapshots, transfer
from tidelog.raft.core.effects import RefusedPeer
from tidelog.raft.core.members import ANY_DIRECTORY
from tidelog.raft.core.messages import (
    AppendRequest,
    AppendResponse,
    RefusalResponse,
    Request,
    SnapshotRequest,
    SnapshotResponse,
    TimeoutNowRequest,
    TimeoutNowResponse,
    VoteRequest,
    VoteResponse,
)
from tidelog.raft.core.settings import NOBODY

if TYPE_CHECKING:
    from tidelog.raft.core.events import Receive
    from tidelog.raft.core.machine import RaftMachine


def receive(raft: RaftMachine, event: Receive) -> None:
    match event.message:
        case VoteRequest() | AppendRequest() | SnapshotRequest() | TimeoutNowRequest() as request:
            reason = _reason_to_refuse(raft, event, request)
            if reason:
                raft.outbox.tell(RefusedPeer(event.source_id, reason))
                raft.reply(
                    event.reply_to, RefusalResponse(term=raft.term, request_id=request.request_id, reason=reason)
                )
            else:
                _take_request(raft, event, request)
        case RefusalResponse(reason=reason):
            raft.outbox.tell(RefusedPeer(event.source_id, f"it refuses this node: {reason}"))
        case response:
            member = raft.members.find(event.source_id)
            if member is None or not member.is_heard_from(event.source_directory):
                return
            if response.term > raft.term:
                raft.become_follower(response.term, NOBODY)
            else:
                _take_response(raft, event, response)


def _reason_to_refuse(raft: RaftMachine, event: Receive, request: Request) -> str:
    """Empty when the request counts."""
    settings = raft.settings
    if event.destination_directory not in (ANY_DIRECTORY, settings.directory_id):
        return f"node {settings.node_id} has another data directory than the member of that id"
    if event.source_id == settings.node_id:
        return f"another node uses the id {settings.node_id} of this one"
    if not raft.members:
        return ""
    member = raft.members.find(event.source_id)
    if member is not None and member.is_heard_from(event.source_directory):
        return ""
    match request:
        case AppendRequest() | SnapshotRequest() if request.term >= raft.term:
            if raft.leader_id == event.source_id or not election.hears_leader(raft):
                return ""
        case VoteRequest() if request.log_end > raft.log.log_end:
            return ""
    if member is None:
        return f"node {event.source_id} is no member of the quorum; it was removed or has not joined yet"
    return f"node {event.source_id} comes with another data directory than the member of that id; add it anew"


def _take_request(raft: RaftMachine, event: Receive, request: Request) -> None:
    match request:
        case VoteRequest():
            election.answer_vote(raft, event, request)
        case AppendRequest():
            replication.take_append(raft, event, request)
        case SnapshotRequest():
            snapshots.take_part(raft, event, request)
        case TimeoutNowRequest():
            transfer.take_over(raft, event, request)


def _take_response(
    raft: RaftMachine,
    event: Receive,
    response: VoteResponse | AppendResponse | SnapshotResponse | TimeoutNowResponse,
) -> None:
    match response:
        case VoteResponse():
            election.take_vote(raft, event, response)
        case AppendResponse():
            replication.take_response(raft, event, response)
        case SnapshotResponse():
            snapshots.take_response(raft, event.source_id, response)
        case TimeoutNowResponse():
            pass
