"""All consumer groups of a shard: puts requests to them, keeps their deadlines, moves groups between the protocols.

A group id stands for a classic group or a consumer group, never for both; `replay` keeps it so. Deadlines are not
cancelled when they are no longer needed: when one is due, its group is checked for something to do. Only a group that
becomes a classic one leaves none behind: its members may be those of another consumer group before they are due.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from tidelog.coordination.deadlines import DeadlineQueue
from tidelog.coordination.decision import Decision, Moment
from tidelog.groups.core.classic_group import ClassicGroup
from tidelog.groups.core.classic_joining import CLIENT_ID_CHARACTERS_IN_MEMBER_ID_MAX
from tidelog.groups.core.consumer import classic_members, heartbeats, migration
from tidelog.groups.core.consumer.assigning import put_off_ms, refresh_target
from tidelog.groups.core.consumer.draft import Draft
from tidelog.groups.core.consumer.group import ConsumerGroup
from tidelog.groups.core.consumer.heartbeats import World, as_partitions
from tidelog.groups.core.consumer.messages import (
    ConsumerHeartbeat,
    DescribedConsumer,
    DescribedConsumerGroup,
    HeartbeatReply,
)
from tidelog.groups.core.consumer.records import (
    STATIC_LEAVE_EPOCH,
    ConsumerGroupRecord,
    CurrentAssignment,
    GroupEpochRecord,
)
from tidelog.groups.core.consumer.state import MemberState
from tidelog.groups.core.consumer.validation import validate_heartbeat
from tidelog.groups.core.messages import (
    Commit,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    Sync,
    Synced,
)
from tidelog.groups.core.rebalance import SESSION, Deadline, Rebalancer
from tidelog.groups.core.records import GroupMetadataRecord
from tidelog.groups.core.settings import EMPTY_GROUP_RETRY_MS, GroupSettings
from tidelog.metadata.image import MetadataImage
from tidelog.model.errors import NO_ERROR, BrokerError, ErrorCode

REVOKE: Final = "revoke"
"""The time for a member to revoke partitions is over."""
REJOIN: Final = "rejoin"
"""The time for a classic member to join again is over."""
FETCH_ASSIGNMENT: Final = "fetch-assignment"
"""The time for a classic member to sync is over."""
ASSIGN: Final = "assign"
"""The delay of a group's assignment is over."""
DOWNGRADE: Final = "downgrade"
"""Only classic members are left: the group becomes a classic one."""
REBALANCE: Final = "rebalance"
"""A group has become a classic one: its members are to join."""
MEMBER_DEADLINES: Final = frozenset({SESSION, REVOKE, REJOIN, FETCH_ASSIGNMENT})


class ConsumerGroups:
    def __init__(
        self,
        settings: GroupSettings,
        deadlines: DeadlineQueue[Deadline],
        rebalancer: Rebalancer,
        classic: dict[str, ClassicGroup],
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.image = MetadataImage()
        """The topics as this node knows them; replaced with `change_metadata`."""
        self._settings = settings
        self._deadlines = deadlines
        self._rebalancer = rebalancer
        self._classic = classic

    def get(self, group_id: str) -> ConsumerGroup | None:
        return self.groups.get(group_id)

    def _world(self, now: Moment) -> World:
        return World(self.image, self._settings, now)

    # -- members -----------------------------------------------------------------------------------------------------

    def decide_heartbeat(self, request: ConsumerHeartbeat, now: Moment) -> Decision[HeartbeatReply]:
        group = self.groups.get(request.group_id)
        if group is not None and heartbeats.is_quiet(group, request):
            overrides = self.image.group_configs.get(request.group_id)
            self._keep_alive(request.group_id, request.member_id, self._settings.session_timeout_ms(overrides), now)
            interval_ms = self._settings.heartbeat_interval_ms(overrides)
            return Decision(HeartbeatReply(request.member_id, request.member_epoch, interval_ms))
        validate_heartbeat(request, self._settings.consumer_assignors)
        if request.member_epoch < 0:
            return self._decide_leave(group, request, now)
        classic = None
        if group is not None:
            draft = Draft(group)
        elif request.member_epoch == 0:
            classic = self._classic.get(request.group_id)
            draft = self._begin(request.group_id, classic)
        else:
            raise self._not_found(request.group_id)
        member_id, current, reply = heartbeats.heartbeat(draft, request, self._world(now))
        decision = Decision(reply)
        if classic is not None:
            self._end_classic(classic, now, decision)
        self._keep_alive(request.group_id, member_id, self._session_timeout_ms(request.group_id), now)
        if draft.records and (group is None or current != group.current_of(member_id)):
            # Its rebalance timeout runs from this response, whatever other members do in the meantime.
            self._maybe_limit_revocation(draft, member_id, current, now)
        self._maybe_assign_later(draft.group, now)
        decision.records += draft.records
        return decision

    def _begin(self, group_id: str, classic: ClassicGroup | None) -> Draft:
        """A group that is new, or was a classic one until now."""
        draft = Draft(ConsumerGroup(group_id), is_new=True)
        if classic is not None and classic.members:
            for record in migration.upgrade_records(classic, self._settings, self.image):
                draft.add(record)
        return draft

    def _end_classic(self, classic: ClassicGroup, now: Moment, decision: Decision[HeartbeatReply]) -> None:
        """Members that wait for a rebalance that will not end join again, in the group as it is then."""
        if classic.is_recorded:
            decision.records.append(GroupMetadataRecord(classic.group_id, None))
        if not classic.members:
            return
        for member in classic.members.values():
            decision.release(classic.park_join(member, None), Joined(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            decision.release(member.sync_token, Synced(ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync_token = None
            self._rebalancer.keep_alive(classic, member, now)

        def refuse(failed: Decision[HeartbeatReply], error: ErrorCode, _: Moment) -> None:
            failed.reply.error = error

        decision.failures.append(refuse)

    def _decide_leave(
        self, group: ConsumerGroup | None, request: ConsumerHeartbeat, now: Moment
    ) -> Decision[HeartbeatReply]:
        if group is None:
            raise self._not_found(request.group_id)
        draft = Draft(group)
        decision = Decision(heartbeats.leave(draft, request, self._world(now)))
        decision.records += draft.records
        self._maybe_downgrade(draft.group, now)
        return decision

    def _not_found(self, group_id: str) -> BrokerError:
        if group_id in self._classic:
            return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")

    # -- classic members ---------------------------------------------------------------------------------------------

    def decide_join(self, group: ConsumerGroup, request: Join, now: Moment) -> Decision[Joined | None]:
        member_id = request.member_id
        if not member_id:
            prefix = request.instance_id if request.instance_id is not None else request.client_id
            member_id = f"{prefix[:CLIENT_ID_CHARACTERS_IN_MEMBER_ID_MAX]}-{request.fresh_id}"
        draft = Draft(group)
        try:
            joined = classic_members.join(draft, member_id, request, self._world(now))
        except BrokerError as error:
            return Decision(Joined(error.code, ""))
        decision: Decision[Joined | None] = Decision(joined)
        decision.records += draft.records
        if joined.error is NO_ERROR:
            group_id, ticks_ms = group.group_id, now.ticks_ms
            self._deadlines.cancel((REJOIN, group_id, member_id))
            self._keep_alive(group_id, member_id, request.session_timeout_ms, now)
            timeout_ms = request.rebalance_timeout_ms
            self._deadlines.schedule((FETCH_ASSIGNMENT, group_id, member_id), ticks_ms + timeout_ms)
            self._maybe_downgrade(draft.group, now)
            self._maybe_assign_later(draft.group, now)
        return decision

    def decide_sync(self, group: ConsumerGroup, request: Sync, now: Moment) -> Decision[Synced | None]:
        try:
            synced = classic_members.sync(group, request, self._world(now))
        except BrokerError as error:
            if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
                self._expect_rejoin(group, request.member_id, now)
            return Decision(Synced(error.code))
        self._deadlines.cancel((FETCH_ASSIGNMENT, group.group_id, request.member_id))
        self._keep_classic_alive(group, request.member_id, now)
        return Decision(synced)

    def decide_classic_heartbeat(self, group: ConsumerGroup, request: Heartbeat, now: Moment) -> Decision[ErrorCode]:
        try:
            error = classic_members.heartbeat(group, request, self._world(now))
        except BrokerError as fault:
            return Decision(fault.code)
        self._keep_classic_alive(group, request.member_id, now)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._expect_rejoin(group, request.member_id, now)
        return Decision(error)

    def decide_classic_leave(self, group: ConsumerGroup, request: Leave, now: Moment) -> Decision[Left]:
        draft = Draft(group)
        results = classic_members.leave(draft, tuple(request.members), self._world(now))
        decision = Decision(Left(NO_ERROR, results))
        decision.records += draft.records
        self._maybe_downgrade(draft.group, now)
        return decision

    # -- offsets -----------------------------------------------------------------------------------------------------

    def validate_commit(
        self, group: ConsumerGroup, request: Commit, now: Moment, *, is_transactional: bool = False
    ) -> None:
        """Raises unless a member commits at its epoch, or a client without membership to a group without members."""
        if request.generation < 0 and not group.members:
            return
        is_anonymous = request.generation < 0 and not request.member_id and request.instance_id is None
        if is_transactional and is_anonymous:
            return
        member = group.members.get(request.member_id)
        if member is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        current = group.current_of(request.member_id)
        is_classic = member.classic is not None
        if not (is_classic or is_transactional or request.reports_missing_group):
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)
        if request.generation != current.epoch and (
            request.generation > current.epoch or not _owned_since(current, request)
        ):
            # Producers know nothing of epochs: to them a stale one would be fatal, an old generation is not.
            knows_generations = is_classic or is_transactional
            raise BrokerError(ErrorCode.ILLEGAL_GENERATION if knows_generations else ErrorCode.STALE_MEMBER_EPOCH)
        if is_classic:
            self._keep_classic_alive(group, request.member_id, now)

    def validate_fetch(self, group: ConsumerGroup, request: FetchOffsets) -> None:
        if request.member_id is None and request.member_epoch < 0:
            return
        member = group.members.get(request.member_id or "")
        if member is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        if request.member_epoch != group.current_of(request.member_id or "").epoch:
            is_classic = member.classic is not None
            raise BrokerError(ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH)

    # -- administration ----------------------------------------------------------------------------------------------

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        group = self.groups.get(group_id)
        if group is None:
            error = self._not_found(group_id)
            return DescribedConsumerGroup(group_id, error=error.code, error_message=error.message)
        members = []
        for member_id, member in group.members.items():
            current = group.current_of(member_id)
            members.append(
                DescribedConsumer(
                    member_id,
                    member.instance_id,
                    member.rack_id,
                    current.epoch,
                    member.client_id,
                    member.client_host,
                    member.topics,
                    member.pattern,
                    as_partitions(current.held),
                    group.target_of(member_id),
                    member.classic is not None,
                )
            )
        return DescribedConsumerGroup(
            group_id,
            group.state.value,
            epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor=group.preferred_assignor(self._settings.consumer_assignors[0]),
            members=members,
        )

    # -- metadata ----------------------------------------------------------------------------------------------------

    def change_metadata(self, image: MetadataImage, topics: Collection[str]) -> None:
        """The topics named were created, deleted or grew: groups that subscribe to them look at the next heartbeat."""
        self.image = image
        for group in self.groups.values():
            if group.pattern_users or not group.topic_readers.keys().isdisjoint(topics):
                group.metadata_changed(topics)

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, record: ConsumerGroupRecord) -> None:
        group = self.groups.get(record.group_id)
        if type(record) is GroupEpochRecord and record.value is None:
            self.groups.pop(record.group_id, None)
        elif group is not None:
            group.replay(record)
            if type(record) is GroupEpochRecord:
                group.rebalances += 1
        elif record.value is not None:
            group = self.groups[record.group_id] = ConsumerGroup(record.group_id)
            self._classic.pop(record.group_id, None)
            group.replay(record)

    # -- time --------------------------------------------------------------------------------------------------------

    def begin_deadlines(self, now: Moment) -> None:
        """Everything is loaded: every member has a whole session to be heard of."""
        for group in self.groups.values():
            group.metadata_changed(None)
            group.rebalances = 0
            for member_id, member in group.members.items():
                if member.classic is not None:
                    self._keep_classic_alive(group, member_id, now)
                else:
                    self._keep_alive(group.group_id, member_id, self._session_timeout_ms(group.group_id), now)
                    self._maybe_limit_revocation(Draft(group), member_id, group.current_of(member_id), now)
            self._maybe_downgrade(group, now)
            self._maybe_assign_later(group, now)

    def decide_deadlines(self, due: Sequence[Deadline], now: Moment, decision: Decision[Any]) -> None:
        """All `due` are of one group."""
        group_id = due[0][1]
        expired = [(kind, member_id) for kind, _, member_id in due if kind in MEMBER_DEADLINES]
        kinds = {kind for kind, _, _ in due}
        if expired:
            self._decide_expired(group_id, expired, now, decision)
        elif DOWNGRADE in kinds:
            self._decide_downgrade(group_id, now, decision)
        elif ASSIGN in kinds:
            self._decide_assignment(group_id, now, decision)
        # Members that leave come first; what else is due follows when their records are in the log.
        if expired and DOWNGRADE in kinds:
            self._deadlines.schedule((DOWNGRADE, group_id, ""), now.ticks_ms + 1)
        if (expired or DOWNGRADE in kinds) and ASSIGN in kinds:
            self._deadlines.schedule((ASSIGN, group_id, ""), now.ticks_ms + 1)

    def _decide_expired(
        self, group_id: str, due: Sequence[tuple[str, str]], now: Moment, decision: Decision[Any]
    ) -> None:
        """Removes members whose deadline has passed; `due` are (kind, member id) of one group."""
        group = self.groups.get(group_id)
        if group is None:
            return
        draft = Draft(group)
        for kind, member_id in due:
            if member_id not in draft.group.members:
                continue
            if kind == REVOKE and not _must_revoke(group.current_of(member_id)):
                continue
            heartbeats.fence(draft, member_id, self._world(now))
        if not draft.records:
            return
        decision.records += draft.records
        self._maybe_downgrade(draft.group, now)

        def try_again(_failed: Decision[Any], _error: ErrorCode, at: Moment) -> None:
            for kind, member_id in due:
                self._deadlines.schedule((kind, group_id, member_id), at.ticks_ms + EMPTY_GROUP_RETRY_MS)

        decision.failures.append(try_again)

    def _decide_assignment(self, group_id: str, now: Moment, decision: Decision[Any]) -> None:
        """Makes the assignment that was put off, when no heartbeat has made it; later heartbeats find it."""
        group = self.groups.get(group_id)
        if group is None:
            return
        draft = Draft(group)
        refresh_target(draft, self.image, self._settings, now)
        self._maybe_assign_later(draft.group, now)
        if not draft.records:
            return
        decision.records += draft.records

        def try_again(_failed: Decision[Any], _error: ErrorCode, at: Moment) -> None:
            self._deadlines.schedule((ASSIGN, group_id, ""), at.ticks_ms + EMPTY_GROUP_RETRY_MS)

        decision.failures.append(try_again)

    def _maybe_assign_later(self, group: ConsumerGroup, now: Moment) -> None:
        if group.epoch > group.target_epoch and group.members:
            key = (ASSIGN, group.group_id, "")
            if self._deadlines.deadline_of(key) is None:
                delay_ms = put_off_ms(group, self.image, self._settings, now)
                self._deadlines.schedule(key, now.ticks_ms + delay_ms)

    def _decide_downgrade(self, group_id: str, now: Moment, decision: Decision[Any]) -> None:
        group = self.groups.get(group_id)
        if group is None or not self._may_downgrade(group):
            return
        record, members = migration.downgrade_record(group, self.image, now)
        decision.records += group.tombstones()
        decision.records.append(record)
        classic = self._classic[group_id] = ClassicGroup(group_id)
        classic.arriving = {member.member_id: member for member in members}
        self._deadlines.schedule((REBALANCE, group_id, ""), now.ticks_ms)

        def stay(_failed: Decision[Any], _error: ErrorCode, at: Moment) -> None:
            self._classic.pop(group_id, None)
            self._deadlines.schedule((DOWNGRADE, group_id, ""), at.ticks_ms + EMPTY_GROUP_RETRY_MS)

        decision.failures.append(stay)

    def _maybe_downgrade(self, group: ConsumerGroup, now: Moment) -> None:
        """In a decision of its own, when this one is in the log."""
        if self._may_downgrade(group):
            self._deadlines.schedule((DOWNGRADE, group.group_id, ""), now.ticks_ms)

    def end_deadlines(self, group_id: str, member_id: str) -> None:
        """The group is a classic one now, and one day may be another consumer group."""
        for kind in MEMBER_DEADLINES - {SESSION}:
            self._deadlines.cancel((kind, group_id, member_id))

    def _may_downgrade(self, group: ConsumerGroup) -> bool:
        return (
            self._settings.allows_downgrade
            and group.has_only_classic_members
            and len(group.members) <= self._settings.max_size
        )

    def _keep_alive(self, group_id: str, member_id: str, timeout_ms: int, now: Moment) -> None:
        self._deadlines.schedule((SESSION, group_id, member_id), now.ticks_ms + timeout_ms)

    def _keep_classic_alive(self, group: ConsumerGroup, member_id: str, now: Moment) -> None:
        classic = group.members[member_id].classic
        assert classic is not None
        self._keep_alive(group.group_id, member_id, classic.session_timeout_ms, now)

    def _session_timeout_ms(self, group_id: str) -> int:
        return self._settings.session_timeout_ms(self.image.group_configs.get(group_id))

    def _expect_rejoin(self, group: ConsumerGroup, member_id: str, now: Moment) -> None:
        key = (REJOIN, group.group_id, member_id)
        if self._deadlines.deadline_of(key) is None:
            self._deadlines.schedule(key, now.ticks_ms + group.members[member_id].rebalance_timeout_ms)

    def _maybe_limit_revocation(self, draft: Draft, member_id: str, current: CurrentAssignment, now: Moment) -> None:
        """A classic member that should revoke partitions is limited by its time to rejoin instead."""
        member = draft.group.members[member_id]
        if current.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            key = (REVOKE, draft.group.group_id, member_id)
            self._deadlines.schedule(key, now.ticks_ms + member.rebalance_timeout_ms)


def _must_revoke(current: CurrentAssignment) -> bool:
    """A static member that will be back has nothing left to give up; its session says how long it is waited for."""
    return current.state is MemberState.UNREVOKED_PARTITIONS and current.epoch != STATIC_LEAVE_EPOCH


def _owned_since(current: CurrentAssignment, request: Commit) -> bool:
    """A member may commit at an older epoch for partitions it has owned since that epoch (KIP-1251)."""
    for offset in request.offsets:
        since = current.owned.get(offset.topic_id, {}).get(offset.partition)
        if since is None:
            since = current.revoking.get(offset.topic_id, {}).get(offset.partition)
        if since is None or request.generation < since:
            return False
    return True
