"""JoinGroup: new members, members that come back, and static members that were restarted.

A join is answered at once, or parked in its member under the caller's token until the round is complete; the reply of
such a decision is None.
"""

from __future__ import annotations

from tidelog.coordination.decision import Decision, Moment
from tidelog.groups.core.classic_group import ClassicGroup, Member
from tidelog.groups.core.messages import UNKNOWN_MEMBER_ID, Join, Joined, Synced
from tidelog.groups.core.rebalance import Rebalancer, joined
from tidelog.groups.core.records import GroupMetadataRecord
from tidelog.groups.core.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from tidelog.groups.core.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from tidelog.model.errors import NO_ERROR, ErrorCode

JoinDecision = Decision[Joined | None]

CLIENT_ID_CHARACTERS_IN_MEMBER_ID_MAX = 1024
"""Member ids travel as strings of at most 32 KiB; a longer client id must not make one that cannot."""


def decide_join(
    group: ClassicGroup, request: Join, token: int, now: Moment, settings: GroupSettings, rebalancer: Rebalancer
) -> JoinDecision:
    member_id = request.member_id
    if not _has_room(group, member_id, settings.max_size):
        group.remove(member_id)
        return _refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID)
    if not group.supports(request.protocol_type, request.protocols):
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    if member_id == UNKNOWN_MEMBER_ID:
        return _join_new(group, request, token, now, rebalancer)
    if member_id in group.pending_members:
        if request.instance_id is not None:
            # Only dynamic members get an id in advance, so this one was made up.
            return _refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
        return _add_member(group, member_id, request, token, now, rebalancer)
    error = group.validate_member(member_id, request.instance_id)
    if error is not NO_ERROR:
        return _refuse(error, member_id)
    return _rejoin(group, group.members[member_id], request, token, now, rebalancer)


def _refuse(error: ErrorCode, member_id: str) -> JoinDecision:
    return Decision(Joined(error, member_id))


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Whether the group may take this member in.

    While members join, only those that wait count, not all that are known: the last to come back are the ones
    that are refused when the limit was lowered.
    """
    if group.state is PREPARING_REBALANCE:
        member = group.members.get(member_id)
        return (member is not None and member.join_token is not None) or group.awaiting_join < max_size
    if group.state is EMPTY:
        return True
    return member_id in group.members or len(group.members) < max_size


def _join_new(group: ClassicGroup, request: Join, token: int, now: Moment, rebalancer: Rebalancer) -> JoinDecision:
    prefix = request.instance_id if request.instance_id is not None else request.client_id
    member_id = f"{prefix[:CLIENT_ID_CHARACTERS_IN_MEMBER_ID_MAX]}-{request.fresh_id}"
    if request.instance_id is not None:
        current_id = group.static_members.get(request.instance_id)
        if current_id is not None:
            return _replace_static(group, group.members[current_id], member_id, request, token, now, rebalancer)
    elif request.requires_known_member_id:
        group.pending_members.add(member_id)
        rebalancer.expect_by(group, member_id, request.session_timeout_ms, now)
        return _refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    return _add_member(group, member_id, request, token, now, rebalancer)


def _new_member(member_id: str, request: Join) -> Member:
    return Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
    )


def _add_member(
    group: ClassicGroup, member_id: str, request: Join, token: int, now: Moment, rebalancer: Rebalancer
) -> JoinDecision:
    decision: JoinDecision = Decision(None)
    member = _new_member(member_id, request)
    member.is_new = True
    if not group.members:
        group.protocol_type = request.protocol_type
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
        group.new_member_added = True
    group.add(member, token)
    rebalancer.expect_by(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS, now)
    rebalancer.maybe_rebalance(group, now, decision)
    return decision


def _rejoin(
    group: ClassicGroup, member: Member, request: Join, token: int, now: Moment, rebalancer: Rebalancer
) -> JoinDecision:
    unchanged = member.protocols == request.protocols
    if group.state is COMPLETING_REBALANCE and unchanged:
        # It lost the response to its join: send the same again, nothing has changed.
        return Decision(joined(group, member.member_id))
    if group.state is STABLE and unchanged and group.leader != member.member_id:
        return Decision(joined(group, member.member_id))
    # The leader of a stable group joins again to change the assignment, for instance when a topic has grown.
    decision: JoinDecision = Decision(None)
    group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    replaced = group.park_join(member, token)
    decision.release(replaced, Joined(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    rebalancer.maybe_rebalance(group, now, decision)
    return decision


def _replace_static(
    group: ClassicGroup,
    old: Member,
    member_id: str,
    request: Join,
    token: int,
    now: Moment,
    rebalancer: Rebalancer,
) -> JoinDecision:
    """A static member came back without its id: it was restarted and takes its own place again."""
    decision: JoinDecision = Decision(None)
    new = _new_member(member_id, request)
    new.client_id, new.client_host, new.assignment = old.client_id, old.client_host, old.assignment
    if group.state is STABLE and group.select_protocol(old, new) == group.protocol:
        return _replace_without_rebalance(group, old, new, request, now, rebalancer)
    decision.release(old.join_token, Joined(ErrorCode.FENCED_INSTANCE_ID, old.member_id))
    decision.release(old.sync_token, Synced(ErrorCode.FENCED_INSTANCE_ID))
    old.sync_token = None
    group.replace_static(old, new)
    rebalancer.end_session(group, old.member_id)
    rebalancer.keep_alive(group, new, now)
    group.park_join(new, token)
    # When a generation waits for its assignment, the leader may already assign to the old id: that round is lost.
    rebalancer.maybe_rebalance(group, now, decision)
    return decision


def _replace_without_rebalance(
    group: ClassicGroup, old: Member, new: Member, request: Join, now: Moment, rebalancer: Rebalancer
) -> JoinDecision:
    """The point of static membership: a restart within the session timeout costs a record and no rebalance."""
    is_leader = group.leader == old.member_id
    leader = new.member_id if is_leader else group.leader
    members = [new if member is old else member for member in group.members.values()]
    stored = group.stored((m.stored(group.protocol, m.assignment) for m in members), group.state_timestamp_ms)
    if is_leader and request.supports_skipping_assignment:
        reply = joined(group, old.member_id)
        reply.member_id = reply.leader = new.member_id
        reply.members = [(new.member_id, *m[1:]) if m[0] == old.member_id else m for m in reply.members]
        reply.skip_assignment = True
    else:
        # Before JoinGroup 9 the response names the old id as leader, so that the client does not assign.
        reply = joined(group, new.member_id)
    decision: JoinDecision = Decision(reply)
    stored.leader = leader
    decision.records.append(GroupMetadataRecord(group.group_id, stored))
    group.arriving[new.member_id] = new
    rebalancer.keep_alive(group, new, now)

    def keep_old(failed: JoinDecision, error: ErrorCode, _: Moment) -> None:
        group.arriving.pop(new.member_id, None)
        failed.reply = Joined(
            error, UNKNOWN_MEMBER_ID, group.generation, group.protocol_type, group.protocol, group.leader or ""
        )

    decision.failures.append(keep_old)
    return decision
