"""SyncGroup, Heartbeat and LeaveGroup of a group that exists."""

from __future__ import annotations

from tidelog.coordination.decision import Decision, Moment
from tidelog.groups.core.classic_group import ClassicGroup
from tidelog.groups.core.messages import (
    UNKNOWN_MEMBER_ID,
    Heartbeat,
    Leave,
    LeavingMember,
    Left,
    LeftMember,
    Sync,
    Synced,
)
from tidelog.groups.core.rebalance import Rebalancer
from tidelog.groups.core.records import GroupMetadataRecord
from tidelog.groups.core.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from tidelog.model.errors import NO_ERROR, ErrorCode

SyncDecision = Decision[Synced | None]


def decide_sync(group: ClassicGroup, request: Sync, token: int, now: Moment, rebalancer: Rebalancer) -> SyncDecision:
    """The leader's sync writes the generation to the log; the others wait for that, or are answered from it."""
    error = _validate_sync(group, request)
    if error is not NO_ERROR:
        return Decision(Synced(error))
    member = group.members[request.member_id]
    if group.state is STABLE:
        rebalancer.synced(group, member.member_id)
        return Decision(Synced(NO_ERROR, group.protocol_type, group.protocol, member.assignment))
    decision: SyncDecision = Decision(None)
    if member.sync_token is not None:
        decision.release(member.sync_token, Synced(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_token = token
    rebalancer.synced(group, member.member_id)
    if group.leader == member.member_id:
        _assign(group, request, now, rebalancer, decision)
    return decision


def _validate_sync(group: ClassicGroup, request: Sync) -> ErrorCode:
    if group.state is EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(request.member_id, request.instance_id)
    if error is not NO_ERROR:
        return error
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol is not None and request.protocol != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return NO_ERROR


def _assign(group: ClassicGroup, request: Sync, now: Moment, rebalancer: Rebalancer, decision: SyncDecision) -> None:
    """All waiting members are answered by this decision: its replies stay back until the record is committed."""
    assignments = dict(request.assignments)
    stored = []
    for member in group.members.values():
        assignment = assignments.get(member.member_id, b"")
        stored.append(member.stored(group.protocol, assignment))
        if member.sync_token is not None:
            reply = Synced(NO_ERROR, group.protocol_type, group.protocol, assignment)
            decision.release(member.sync_token, reply)
            member.sync_token = None
            rebalancer.keep_alive(group, member, now)
    decision.records.append(GroupMetadataRecord(group.group_id, group.stored(stored, now.wall_ms)))

    def begin_again(failed: SyncDecision, error: ErrorCode, at: Moment) -> None:
        failed.released[:] = [(waiting, Synced(error)) for waiting, _ in failed.released]
        rebalancer.prepare_rebalance(group, at, failed)

    decision.failures.append(begin_again)


def decide_heartbeat(
    group: ClassicGroup, request: Heartbeat, now: Moment, rebalancer: Rebalancer
) -> Decision[ErrorCode]:
    member = group.members.get(request.member_id)
    if member is None or request.instance_id is not None:
        error = group.validate_member(request.member_id, request.instance_id)
        if error is not NO_ERROR:
            return Decision(error)
    assert member is not None
    if request.generation != group.generation:
        return Decision(ErrorCode.ILLEGAL_GENERATION)
    rebalancer.keep_alive(group, member, now)
    return Decision(ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else NO_ERROR)


def decide_leave(group: ClassicGroup, request: Leave, now: Moment, rebalancer: Rebalancer) -> Decision[Left]:
    decision: Decision[Left] = Decision(Left(NO_ERROR))
    results = []
    anyone_left = False
    for leaving in request.members:
        error = _remove_leaving(group, leaving, rebalancer, decision)
        anyone_left |= error is NO_ERROR
        results.append(LeftMember(leaving.member_id, leaving.instance_id, error))
    decision.reply = Left(NO_ERROR, results)
    if anyone_left:
        if group.state in (STABLE, COMPLETING_REBALANCE):
            rebalancer.maybe_rebalance(group, now, decision)
        else:
            rebalancer.maybe_complete_join(group, now, decision)
    return decision


def _remove_leaving(
    group: ClassicGroup, leaving: LeavingMember, rebalancer: Rebalancer, decision: Decision[Left]
) -> ErrorCode:
    member_id = leaving.member_id
    if member_id == UNKNOWN_MEMBER_ID:
        # An administrator removes a static member by its instance id alone.
        member_id = group.static_members.get(leaving.instance_id or "", UNKNOWN_MEMBER_ID)
        if leaving.instance_id is None or member_id == UNKNOWN_MEMBER_ID:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.pending_members:
        group.remove(member_id)
        rebalancer.end_session(group, member_id)
        return NO_ERROR
    else:
        error = group.validate_member(member_id, leaving.instance_id)
        if error is not NO_ERROR:
            return error
    rebalancer.dismiss(group, group.members[member_id], decision)
    return NO_ERROR
