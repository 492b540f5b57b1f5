"""Rebalances of a classic group: gather the members, form a generation, remove those that do not join.

Every method takes the decision it adds to; parked requests are answered through it. A group enters EMPTY and STABLE
by the replay of a record, which is added here (EMPTY) or when the leader syncs (STABLE), and the other states directly:
a round that a crash interrupts is begun again by its members.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.coordination.deadlines import DeadlineQueue
from tidelog.coordination.decision import Decision, Moment
from tidelog.groups.core.classic_group import ClassicGroup, Member
from tidelog.groups.core.messages import UNKNOWN_MEMBER_ID, Joined, Synced
from tidelog.groups.core.records import GroupMetadataRecord, StoredGroup
from tidelog.groups.core.settings import EMPTY_GROUP_RETRY_MS, STATIC_REJOIN_TIMEOUT_MIN_MS, GroupSettings
from tidelog.groups.core.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from tidelog.model.errors import NO_ERROR, ErrorCode

Deadline = tuple[str, str, str]
"""(kind, group id, member id or ""): what is to happen when it is reached."""

SESSION: Final = "session"
"""A member or a pending id has been silent for too long."""
JOIN: Final = "join"
"""The time for members to join a round is over, or an initial delay is."""
SYNC: Final = "sync"
"""The time for the members of a generation to send SyncGroup is over."""


class Rebalancer:
    def __init__(self, settings: GroupSettings, deadlines: DeadlineQueue[Deadline]) -> None:
        self._settings = settings
        self._deadlines = deadlines

    def keep_alive(self, group: ClassicGroup, member: Member, now: Moment) -> None:
        """The member sent a request: its session timeout starts again."""
        self._deadlines.schedule((SESSION, group.group_id, member.member_id), now.ticks_ms + member.session_timeout_ms)

    def expect_by(self, group: ClassicGroup, member_id: str, timeout_ms: int, now: Moment) -> None:
        self._deadlines.schedule((SESSION, group.group_id, member_id), now.ticks_ms + timeout_ms)

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self._deadlines.cancel((SESSION, group.group_id, member_id))

    def maybe_rebalance(self, group: ClassicGroup, now: Moment, decision: Decision[Any]) -> None:
        """Something changed in the group: begin a rebalance, or end the one under way if all members have joined."""
        if group.can_rebalance:
            self.prepare_rebalance(group, now, decision)
        else:
            self.maybe_complete_join(group, now, decision)

    def prepare_rebalance(self, group: ClassicGroup, now: Moment, decision: Decision[Any]) -> None:
        if group.state is COMPLETING_REBALANCE:
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now, decision)
        group.pending_sync.clear()
        self._deadlines.cancel((SYNC, group.group_id, ""))
        is_initial = group.state is EMPTY
        group.become(PREPARING_REBALANCE, now.wall_ms)
        if is_initial:
            # Members of a new group come one after the other: wait a little instead of rebalancing for each.
            group.new_member_added = False
            group.initial_delay_ms = self._settings.initial_rebalance_delay_ms
            group.initial_remaining_ms = max(group.rebalance_timeout_ms - group.initial_delay_ms, 0)
            if group.initial_delay_ms > 0:
                self._deadlines.schedule((JOIN, group.group_id, ""), now.ticks_ms + group.initial_delay_ms)
            else:
                self.complete_join(group, now, decision)
        elif group.all_members_joined:
            self.complete_join(group, now, decision)
        else:
            self._deadlines.schedule((JOIN, group.group_id, ""), now.ticks_ms + group.rebalance_timeout_ms)

    def maybe_complete_join(self, group: ClassicGroup, now: Moment, decision: Decision[Any]) -> None:
        """An initial round ends by its delay only; any other as soon as all members have joined."""
        if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY and group.all_members_joined:
            self.complete_join(group, now, decision)

    def complete_join(self, group: ClassicGroup, now: Moment, decision: Decision[Any]) -> None:
        self._deadlines.cancel((JOIN, group.group_id, ""))
        absent = [m.member_id for m in group.members.values() if m.join_token is None and m.instance_id is None]
        for member_id in absent:
            group.remove(member_id)
            self.end_session(group, member_id)
        if not group.members:
            self._become_empty(group, now, decision)
        elif not group.maybe_elect_joined_leader():
            # Only static members are left and none came back: their sessions decide how long they are waited for.
            timeout_ms = max(group.rebalance_timeout_ms, STATIC_REJOIN_TIMEOUT_MIN_MS)
            self._deadlines.schedule((JOIN, group.group_id, ""), now.ticks_ms + timeout_ms)
        else:
            self._form_generation(group, now, decision)

    def _form_generation(self, group: ClassicGroup, now: Moment, decision: Decision[Any]) -> None:
        group.next_generation(now.wall_ms)
        for member in group.members.values():
            decision.release(group.park_join(member, None), joined(group, member.member_id))
            self.keep_alive(group, member, now)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._deadlines.schedule((SYNC, group.group_id, ""), now.ticks_ms + group.rebalance_timeout_ms)

    def _become_empty(self, group: ClassicGroup, now: Moment, decision: Decision[Any]) -> None:
        stored = StoredGroup(group.protocol_type or "", group.generation + 1, None, None, now.wall_ms, ())
        decision.records.append(GroupMetadataRecord(group.group_id, stored))
        decision.failures.append(lambda _decision, _error, at: self._retry_empty(group, at))

    def _retry_empty(self, group: ClassicGroup, now: Moment) -> None:
        """The group has no members whatever the log says; write it down as soon as the log lets us."""
        self._deadlines.schedule((JOIN, group.group_id, ""), now.ticks_ms + EMPTY_GROUP_RETRY_MS)

    def fail_syncs(self, group: ClassicGroup, error: ErrorCode, now: Moment, decision: Decision[Any]) -> None:
        for member in group.members.values():
            if member.sync_token is not None:
                decision.release(member.sync_token, Synced(error))
                member.sync_token = None
                self.keep_alive(group, member, now)

    def dismiss(self, group: ClassicGroup, member: Member, decision: Decision[Any]) -> None:
        """Removes a member; its parked join is answered, in case the client still runs, so that it joins again."""
        reply = Joined(ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID)
        decision.release(group.park_join(member, None), reply)
        decision.release(member.sync_token, Synced(ErrorCode.UNKNOWN_MEMBER_ID))
        member.sync_token = None
        group.remove(member.member_id)
        self.end_session(group, member.member_id)

    def expire_session(self, group: ClassicGroup, member_id: str, now: Moment, decision: Decision[Any]) -> None:
        member = group.members.get(member_id)
        if member is None:
            if member_id in group.pending_members:
                group.remove(member_id)
                self._complete_join_if_all_joined(group, now, decision)
            return
        if member.satisfies_heartbeat:
            return
        self.dismiss(group, member, decision)
        if group.state in (STABLE, COMPLETING_REBALANCE):
            self.maybe_rebalance(group, now, decision)
        else:
            self._complete_join_if_all_joined(group, now, decision)

    def _complete_join_if_all_joined(self, group: ClassicGroup, now: Moment, decision: Decision[Any]) -> None:
        if group.state is PREPARING_REBALANCE and group.all_members_joined:
            self.complete_join(group, now, decision)

    def expire_join(self, group: ClassicGroup, now: Moment, decision: Decision[Any]) -> None:
        if group.state is not PREPARING_REBALANCE:
            return
        remaining_ms = group.initial_remaining_ms
        if group.previous_state is EMPTY and group.new_member_added and remaining_ms > 0:
            group.new_member_added = False
            delay_ms = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
            group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
            group.initial_delay_ms = delay_ms
            self._deadlines.schedule((JOIN, group.group_id, ""), now.ticks_ms + delay_ms)
        else:
            self.complete_join(group, now, decision)

    def expire_sync(self, group: ClassicGroup, now: Moment, decision: Decision[Any]) -> None:
        """Members that joined the generation but never synced hold partitions that no one reads."""
        if group.state not in (COMPLETING_REBALANCE, STABLE) or not group.pending_sync:
            return
        for member_id in sorted(group.pending_sync):
            self.dismiss(group, group.members[member_id], decision)
        self.prepare_rebalance(group, now, decision)

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self._deadlines.cancel((SYNC, group.group_id, ""))


def joined(group: ClassicGroup, member_id: str) -> Joined:
    """The JoinGroup response of `member_id` for the current generation; only the leader's lists the members."""
    return Joined(
        NO_ERROR,
        member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        group.joined_members() if group.leader == member_id else (),
    )
