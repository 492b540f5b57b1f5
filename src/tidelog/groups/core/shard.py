"""All groups and offsets of one partition of `__consumer_offsets`: the core that the coordinator hosts.

`decide_*` takes a request and a moment and returns the records to write and the replies to give; `replay` folds written
records into the state. Committed offsets, and what the log tells of a group, change in `replay` only. The rounds of a
rebalance are not in the log: `decide_*` moves them along, and their members start them again after a crash.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

from tidelog.coordination.deadlines import DeadlineQueue
from tidelog.coordination.decision import Decision, Moment
from tidelog.groups.core import classic_joining, classic_membership, offsets
from tidelog.groups.core.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from tidelog.groups.core.consumer.group import ConsumerGroup
from tidelog.groups.core.consumer.groups import REBALANCE, ConsumerGroups
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, DescribedConsumerGroup, HeartbeatReply
from tidelog.groups.core.consumer.records import GroupEpochRecord
from tidelog.groups.core.messages import (
    UNKNOWN_MEMBER_ID,
    Commit,
    DeleteOffsets,
    DescribedGroup,
    DescribedMember,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    LeftMember,
    ListedGroup,
    Sync,
    Synced,
    TransactionalCommit,
)
from tidelog.groups.core.portions import Portion, pop_due_of_one_group
from tidelog.groups.core.rebalance import JOIN, SESSION, SYNC, Deadline, Rebalancer
from tidelog.groups.core.records import (
    GroupMetadataRecord,
    GroupRecord,
    OffsetCommitRecord,
    decode_record,
    encode_records,
)
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.state import DEAD, STABLE
from tidelog.model.errors import NO_ERROR, BrokerError, ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID
from tidelog.model.limits import GROUPS_PER_DECISION_MAX

_CLEANUP: Deadline = ("cleanup", "", "")
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class GroupShard:
    def __init__(self, settings: GroupSettings) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = offsets.OffsetStore()
        self._settings = settings
        self._deadlines: DeadlineQueue[Deadline] = DeadlineQueue()
        self._rebalancer = Rebalancer(settings, self._deadlines)
        self.consumers = ConsumerGroups(settings, self._deadlines, self._rebalancer, self.groups)
        """The groups of the consumer protocol; `groups` has the classic ones."""
        self._to_clean: deque[str] = deque()
        """The groups that the round of expiry under way has yet to look at."""

    # -- membership --------------------------------------------------------------------------------------------------

    def decide_join(self, request: Join, token: int, now: Moment) -> Decision[Joined | None]:
        consumer = self.consumers.get(request.group_id)
        if consumer is not None and consumer.members:
            return self.consumers.decide_join(consumer, request, now)
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER_ID:
                return Decision(Joined(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            group = self.groups[request.group_id] = ClassicGroup(request.group_id)
        decision = classic_joining.decide_join(group, request, token, now, self._settings, self._rebalancer)
        if consumer is not None:
            self._replace_empty(consumer, request, decision)
        self._maybe_forget(group)
        return decision

    def _replace_empty(self, consumer: ConsumerGroup, request: Join, decision: Decision[Joined | None]) -> None:
        """A consumer group without members is replaced by a classic one; its offsets stay."""
        decision.records[:0] = consumer.tombstones()

        def stay(failed: Decision[Joined | None], error: ErrorCode, _: Moment) -> None:
            self.groups.pop(request.group_id, None)
            failed.reply = Joined(error, request.member_id)

        decision.failures.append(stay)

    def decide_consumer_heartbeat(self, request: ConsumerHeartbeat, now: Moment) -> Decision[HeartbeatReply]:
        return self.consumers.decide_heartbeat(request, now)

    def decide_sync(self, request: Sync, token: int, now: Moment) -> Decision[Synced | None]:
        consumer = self.consumers.get(request.group_id)
        if consumer is not None:
            return self.consumers.decide_sync(consumer, request, now)
        group = self.groups.get(request.group_id)
        if group is None:
            return Decision(Synced(ErrorCode.UNKNOWN_MEMBER_ID))
        return classic_membership.decide_sync(group, request, token, now, self._rebalancer)

    def decide_heartbeat(self, request: Heartbeat, now: Moment) -> Decision[ErrorCode]:
        group = self.groups.get(request.group_id)
        if group is None:
            consumer = self.consumers.get(request.group_id)
            if consumer is not None:
                return self.consumers.decide_classic_heartbeat(consumer, request, now)
            return Decision(ErrorCode.UNKNOWN_MEMBER_ID)
        return classic_membership.decide_heartbeat(group, request, now, self._rebalancer)

    def decide_leave(self, request: Leave, now: Moment) -> Decision[Left]:
        consumer = self.consumers.get(request.group_id)
        if consumer is not None:
            return self.consumers.decide_classic_leave(consumer, request, now)
        group = self.groups.get(request.group_id)
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            return Decision(Left(NO_ERROR, [LeftMember(m.member_id, m.instance_id, unknown) for m in request.members]))
        decision = classic_membership.decide_leave(group, request, now, self._rebalancer)
        self._maybe_forget(group)
        return decision

    def _maybe_forget(self, group: ClassicGroup) -> None:
        """A group that no member joined in the end leaves no record."""
        if group.is_forgettable and not self.offsets.has_any(group.group_id):
            self.groups.pop(group.group_id, None)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def decide_commit(self, request: Commit, now: Moment) -> Decision[Sequence[ErrorCode]]:
        group = self.groups.get(request.group_id)
        consumer = self.consumers.get(request.group_id) if group is None else None
        if consumer is not None:
            self.consumers.validate_commit(consumer, request, now)
        else:
            offsets.validate_commit(group, request)
        if group is not None:
            member = group.members.get(request.member_id)
            if member is not None:
                self._rebalancer.keep_alive(group, member, now)
        return offsets.decide_commit(request, now, self._settings)

    def decide_transactional_commit(self, request: TransactionalCommit, now: Moment) -> Decision[Sequence[ErrorCode]]:
        """Offsets that wait for the end of the producer's transaction."""
        consumer = self.consumers.get(request.commit.group_id)
        if consumer is not None:
            self.consumers.validate_commit(consumer, request.commit, now, is_transactional=True)
        else:
            offsets.validate_transactional_commit(self.groups.get(request.commit.group_id), request.commit)
        decision = offsets.decide_commit(request.commit, now, self._settings)
        decision.producer = (request.producer_id, request.producer_epoch)
        return decision

    def fetch_offsets(self, request: FetchOffsets, _now: Moment) -> Decision[list[offsets.FetchedTopic]]:
        consumer = self.consumers.get(request.group_id)
        if consumer is not None:
            self.consumers.validate_fetch(consumer, request)
        return Decision(offsets.fetch_offsets(self.offsets, request))

    def decide_delete_offsets(
        self, request: DeleteOffsets, _now: Moment
    ) -> Decision[list[tuple[str, list[tuple[int, ErrorCode]]]]]:
        group = self.groups.get(request.group_id) or self.consumers.get(request.group_id)
        if group is None:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)
        return offsets.decide_delete_offsets(group, self.offsets, request)

    def decide_topics_deleted(
        self, request: tuple[Collection[str], Sequence[str]], _now: Moment
    ) -> Decision[Sequence[str]]:
        """Offsets go with their topic: a topic created later under the same name starts without any.

        The request names the topics, and the groups that may have offsets of them; the reply is the groups to ask for
        next.
        """
        topics, group_ids = request
        decision: Decision[Sequence[str]] = Decision(())
        portion = Portion()
        for at, group_id in enumerate(group_ids):
            _, is_done = portion.fill(decision, self.offsets.tombstones(group_id, topics.__contains__))
            if not is_done or portion.is_full or at + 1 == GROUPS_PER_DECISION_MAX:
                decision.reply = group_ids[at + is_done :]
                break
        return decision

    # -- administration ----------------------------------------------------------------------------------------------

    def decide_prepare_deletion(self, group_id: str, _now: Moment) -> Decision[bool]:
        """Deletes as many offsets of a group that may be deleted as one batch holds, if it does not hold them all;
        whether it is to be asked again. What a crash leaves is the same group with fewer offsets."""
        decision = Decision(False)
        group = self.groups.get(group_id) or self.consumers.get(group_id)
        if group is not None and group.is_empty:
            _, is_all = Portion().fill(decision, self.offsets.tombstones(group_id))
            if is_all:
                decision.records.clear()
            decision.reply = not is_all
        return decision

    def decide_delete_groups(self, group_ids: Sequence[str], _now: Moment) -> Decision[list[tuple[str, ErrorCode]]]:
        results: list[tuple[str, ErrorCode]] = []
        decision = Decision(results)
        for group_id in group_ids:
            group = self.groups.get(group_id) or self.consumers.get(group_id)
            if group is None:
                results.append((group_id, ErrorCode.GROUP_ID_NOT_FOUND))
            elif not group.is_empty:
                results.append((group_id, ErrorCode.NON_EMPTY_GROUP))
            else:
                decision.records.extend(self.offsets.tombstones(group_id))
                decision.records.extend(group.tombstones())
                results.append((group_id, NO_ERROR))
        return decision

    def list_groups(
        self, filters: tuple[Collection[str], Collection[str]], _now: Moment
    ) -> Decision[list[ListedGroup]]:
        """Filters are (states, types), compared without regard to case; an empty one lets everything through."""
        states = {state.strip().lower() for state in filters[0]}
        types = {kind.strip().lower() for kind in filters[1]}
        listed: list[ListedGroup] = []
        if not types or CLASSIC in types:
            listed += [
                ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
                for group in self.groups.values()
            ]
        if not types or CONSUMER in types:
            listed += [
                ListedGroup(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state.value, CONSUMER)
                for group in self.consumers.groups.values()
            ]
        return Decision([group for group in listed if not states or group.state.lower() in states])

    def describe_consumer_groups(
        self, group_ids: Sequence[str], _now: Moment
    ) -> Decision[list[DescribedConsumerGroup]]:
        return Decision([self.consumers.describe(group_id) for group_id in group_ids])

    def describe_groups(self, group_ids: Sequence[str], _now: Moment) -> Decision[list[DescribedGroup]]:
        return Decision([self._describe(group_id) for group_id in group_ids])

    def _describe(self, group_id: str) -> DescribedGroup:
        group = self.groups.get(group_id)
        if group is None:
            is_other = self.consumers.get(group_id) is not None
            message = f"Group {group_id} is not a classic group." if is_other else f"Group {group_id} not found."
            return DescribedGroup(group_id, DEAD.value, ErrorCode.GROUP_ID_NOT_FOUND, message)
        is_stable = group.state is STABLE
        members = [
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol) if is_stable else b"",
                member.assignment,
            )
            for member in group.members.values()
        ]
        protocol = (group.protocol or "") if is_stable else ""
        return DescribedGroup(
            group_id,
            group.state.value,
            protocol_type=group.protocol_type or "",
            protocol=protocol,
            members=members,
        )

    # -- the log -----------------------------------------------------------------------------------------------------

    def encode_records(self, records: Sequence[GroupRecord]) -> list[tuple[bytes, bytes | None]]:
        return encode_records(records)

    def decode_record(self, key: bytes, value: bytes | None) -> GroupRecord | None:
        return decode_record(key, value)

    def replay(self, record: GroupRecord, offset: int, producer_id: int) -> None:
        if isinstance(record, OffsetCommitRecord):
            self.offsets.replay(record, offset, producer_id)
            if record.committed is not None and record.group_id not in self.groups:
                self._keep_for_offsets(record.group_id)
            return
        if not isinstance(record, GroupMetadataRecord):
            self.consumers.replay(record)
            if type(record) is GroupEpochRecord and record.value is None and self.offsets.has_any(record.group_id):
                self._keep_for_offsets(record.group_id)
            return
        if record.stored is None:
            self.groups.pop(record.group_id, None)
            return
        group = self.groups.get(record.group_id)
        if group is None:
            group = self.groups[record.group_id] = ClassicGroup(record.group_id)
        group.replay_stored(record.stored)

    def replay_records(self, records: Sequence[GroupRecord], offset: int, producer_id: int) -> None:
        for record in records:
            self.replay(record, offset, producer_id)
            offset += 1

    def _keep_for_offsets(self, group_id: str) -> None:
        """A group id with offsets is a group, if only a classic one without members."""
        if group_id not in self.groups and self.consumers.get(group_id) is None:
            self.groups[group_id] = ClassicGroup(group_id)

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        for record, log_offset in self.offsets.pending.end(producer_id):
            if committed:
                self.replay(record, log_offset, NO_PRODUCER_ID)

    # -- time --------------------------------------------------------------------------------------------------------

    def deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def forget_traceless(self) -> None:
        """Offsets that were deleted again leave a group behind in the replay that nothing else speaks of."""
        for group in list(self.groups.values()):
            self._maybe_forget(group)

    def decide_loaded(self, now: Moment) -> Decision[None]:
        self.forget_traceless()
        decision = Decision(None)
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalancer.keep_alive(group, member, now)
            if len(group.members) > self._settings.max_size:
                # The limit was lowered: in the new rebalance the last members to join are refused.
                self._rebalancer.prepare_rebalance(group, now, decision)
        self.consumers.begin_deadlines(now)
        self._schedule_cleanup(now)
        return decision

    def decide_deadlines(self, now: Moment) -> Decision[None]:
        """Of one group at a time; while others are due as well, `deadline_ms` is not later than now."""
        decision = Decision(None)
        due = pop_due_of_one_group(self._deadlines, now)
        if not due:
            return decision
        if due[0] == _CLEANUP:
            self._clean_up(now, decision)
            return decision
        group = self.groups.get(due[0][1])
        if group is None:
            self.consumers.decide_deadlines(due, now, decision)
            return decision
        for kind, _, member_id in due:
            if kind == REBALANCE:
                self._begin_as_classic(group, now, decision)
            elif kind == SESSION:
                self._rebalancer.expire_session(group, member_id, now, decision)
                self._maybe_forget(group)
            elif kind == JOIN:
                self._rebalancer.expire_join(group, now, decision)
            elif kind == SYNC:
                self._rebalancer.expire_sync(group, now, decision)
        return decision

    def _begin_as_classic(self, group: ClassicGroup, now: Moment, decision: Decision[None]) -> None:
        """The group was a consumer group a moment ago."""
        for member in group.members.values():
            self.consumers.end_deadlines(group.group_id, member.member_id)
            self._rebalancer.keep_alive(group, member, now)
        if group.state is STABLE:
            self._rebalancer.prepare_rebalance(group, now, decision)

    def _clean_up(self, now: Moment, decision: Decision[None]) -> None:
        """Expired offsets go, and with its last offset a group without members; the rest of a round follows at once."""
        if not self._to_clean:
            self._to_clean.extend([*self.groups, *self.consumers.groups])
        portion = Portion()
        for _ in range(GROUPS_PER_DECISION_MAX):
            if not self._to_clean or portion.is_full:
                break
            group_id = self._to_clean.popleft()
            group = self.groups.get(group_id) or self.consumers.get(group_id)
            if group is None:
                continue
            kept = sum(len(partitions) for partitions in self.offsets.of_group(group_id).values())
            expired = offsets.expired_offsets(group, self.offsets, group_id, now, self._settings.offsets_retention_ms)
            count, is_done = portion.fill(decision, expired)
            if not is_done:
                self._to_clean.appendleft(group_id)
            elif count == kept and group.is_forgotten_without_offsets and not self.offsets.pending.of_group(group_id):
                decision.records.extend(group.tombstones())
        if self._to_clean:
            self._deadlines.schedule(_CLEANUP, now.ticks_ms)
        else:
            self._schedule_cleanup(now)

        def wait(_failed: Decision[None], _error: ErrorCode, at: Moment) -> None:
            self._to_clean.clear()
            self._schedule_cleanup(at)

        decision.failures.append(wait)

    def _schedule_cleanup(self, now: Moment) -> None:
        self._deadlines.schedule(_CLEANUP, now.ticks_ms + self._settings.offsets_retention_check_interval_ms)

    def decide_unloaded(self) -> Decision[None]:
        decision = Decision(None)
        for group in self.groups.values():
            for member in group.members.values():
                reply = Joined(ErrorCode.NOT_COORDINATOR, member.member_id)
                decision.release(group.park_join(member, None), reply)
                decision.release(member.sync_token, Synced(ErrorCode.NOT_COORDINATOR))
                member.sync_token = None
            group.state = DEAD
        return decision
