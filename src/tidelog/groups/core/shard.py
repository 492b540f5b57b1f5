"""All groups and offsets of one partition of `__consumer_offsets`: the core that the coordinator hosts.

`decide_*` takes a request and a moment and returns what to write and whom to answer; `replay` folds written records
into the state. Committed offsets, and what the log tells of a group, change in `replay` only. The rounds of a rebalance
are not in the log: `decide_*` moves them along, and their members start them again after a crash.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidelog.coordination.deadlines import DeadlineQueue
from tidelog.coordination.decision import Decision, Moment
from tidelog.groups.core import joining, membership, offsets
from tidelog.groups.core.group import ClassicGroup
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
from tidelog.groups.core.rebalance import JOIN, SESSION, SYNC, Deadline, Rebalancer
from tidelog.groups.core.records import (
    GroupMetadataRecord,
    GroupRecord,
    OffsetCommitRecord,
    decode_record,
    encode_record,
)
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.state import ClassicGroupState
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID

_S = ClassicGroupState
_CLEANUP: Deadline = ("cleanup", "", "")
CLASSIC = "classic"


class GroupShard:
    encode_record = staticmethod(encode_record)
    decode_record = staticmethod(decode_record)

    def __init__(self, settings: GroupSettings) -> None:
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = offsets.OffsetStore()
        self._settings = settings
        self._deadlines: DeadlineQueue[Deadline] = DeadlineQueue()
        self._rebalancer = Rebalancer(settings, self._deadlines)

    # -- membership --------------------------------------------------------------------------------------------------

    def decide_join(self, request: Join, token: int, now: Moment) -> Decision[Joined | None]:
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER_ID:
                return Decision(Joined(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            group = self.groups[request.group_id] = ClassicGroup(request.group_id)
        decision = joining.decide_join(group, request, token, now, self._settings, self._rebalancer)
        self._maybe_forget(group)
        return decision

    def decide_sync(self, request: Sync, token: int, now: Moment) -> Decision[Synced | None]:
        group = self.groups.get(request.group_id)
        if group is None:
            return Decision(Synced(ErrorCode.UNKNOWN_MEMBER_ID))
        return membership.decide_sync(group, request, token, now, self._rebalancer)

    def decide_heartbeat(self, request: Heartbeat, now: Moment) -> Decision[ErrorCode]:
        group = self.groups.get(request.group_id)
        if group is None:
            return Decision(ErrorCode.UNKNOWN_MEMBER_ID)
        return membership.decide_heartbeat(group, request, now, self._rebalancer)

    def decide_leave(self, request: Leave, now: Moment) -> Decision[Left]:
        group = self.groups.get(request.group_id)
        if group is None:
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            return Decision(
                Left(ErrorCode.NONE, [LeftMember(m.member_id, m.instance_id, unknown) for m in request.members])
            )
        decision = membership.decide_leave(group, request, now, self._rebalancer)
        self._maybe_forget(group)
        return decision

    def _maybe_forget(self, group: ClassicGroup) -> None:
        """A group that nobody joined in the end leaves no trace."""
        if group.is_forgettable and not self.offsets.of_group(group.group_id):
            self.groups.pop(group.group_id, None)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def decide_commit(self, request: Commit, now: Moment) -> Decision[Sequence[ErrorCode]]:
        group = self.groups.get(request.group_id)
        offsets.validate_commit(group, request)
        if group is not None:
            member = group.members.get(request.member_id)
            if member is not None:
                self._rebalancer.keep_alive(group, member, now)
        return offsets.decide_commit(request, now, self._settings)

    def decide_transactional_commit(self, request: TransactionalCommit, now: Moment) -> Decision[Sequence[ErrorCode]]:
        """Offsets that wait for the end of the producer's transaction."""
        offsets.validate_transactional_commit(self.groups.get(request.commit.group_id), request.commit)
        decision = offsets.decide_commit(request.commit, now, self._settings)
        decision.producer = (request.producer_id, request.producer_epoch)
        return decision

    def fetch_offsets(self, request: FetchOffsets, _now: Moment) -> Decision[list[offsets.FetchedTopic]]:
        return Decision(offsets.fetch_offsets(self.offsets, request))

    def decide_delete_offsets(
        self, request: DeleteOffsets, _now: Moment
    ) -> Decision[list[tuple[str, list[tuple[int, ErrorCode]]]]]:
        group = self.groups.get(request.group_id)
        if group is None:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)
        return offsets.decide_delete_offsets(group, self.offsets, request)

    def decide_topics_deleted(self, topics: Collection[str], _now: Moment) -> Decision[None]:
        """Offsets die with their topic: one that is created anew under the name starts from nothing."""
        decision = Decision(None)
        for group_id in self.offsets.group_ids():
            decision.records.extend(self.offsets.tombstones(group_id, lambda topic, _: topic in topics))
        return decision

    # -- administration ----------------------------------------------------------------------------------------------

    def decide_delete_groups(self, group_ids: Sequence[str], _now: Moment) -> Decision[list[tuple[str, ErrorCode]]]:
        results: list[tuple[str, ErrorCode]] = []
        decision = Decision(results)
        for group_id in group_ids:
            group = self.groups.get(group_id)
            if group is None:
                results.append((group_id, ErrorCode.GROUP_ID_NOT_FOUND))
            elif group.state is not _S.EMPTY:
                results.append((group_id, ErrorCode.NON_EMPTY_GROUP))
            else:
                decision.records.extend(self.offsets.tombstones(group_id))
                decision.records.append(GroupMetadataRecord(group_id, None))
                results.append((group_id, ErrorCode.NONE))
        return decision

    def list_groups(
        self, filters: tuple[Collection[str], Collection[str]], _now: Moment
    ) -> Decision[list[ListedGroup]]:
        """Filters are (states, types), compared without regard to case; an empty one lets everything through."""
        states = {state.strip().lower() for state in filters[0]}
        types = {kind.strip().lower() for kind in filters[1]}
        if types and CLASSIC not in types:
            return Decision([])
        listed = [
            ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC)
            for group in self.groups.values()
            if not states or group.state.value.lower() in states
        ]
        return Decision(listed)

    def describe_groups(self, group_ids: Sequence[str], _now: Moment) -> Decision[list[DescribedGroup]]:
        return Decision([self._describe(group_id) for group_id in group_ids])

    def _describe(self, group_id: str) -> DescribedGroup:
        group = self.groups.get(group_id)
        if group is None:
            message = f"Group {group_id} not found."
            return DescribedGroup(group_id, _S.DEAD.value, ErrorCode.GROUP_ID_NOT_FOUND, message)
        is_stable = group.state is _S.STABLE
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

    def replay(self, record: GroupRecord, offset: int, producer_id: int) -> None:
        if type(record) is OffsetCommitRecord:
            self.offsets.replay(record, offset, producer_id)
            if record.committed is not None and record.group_id not in self.groups:
                self.groups[record.group_id] = ClassicGroup(record.group_id)
            return
        assert type(record) is GroupMetadataRecord
        if record.stored is None:
            self.groups.pop(record.group_id, None)
            return
        group = self.groups.get(record.group_id)
        if group is None:
            group = self.groups[record.group_id] = ClassicGroup(record.group_id)
        group.replay_stored(record.stored)

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        for record, log_offset in self.offsets.pending.end(producer_id):
            if committed:
                self.replay(record, log_offset, NO_PRODUCER_ID)

    # -- time --------------------------------------------------------------------------------------------------------

    def deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def decide_loaded(self, now: Moment) -> Decision[None]:
        decision = Decision(None)
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalancer.keep_alive(group, member, now)
            if len(group.members) > self._settings.max_size:
                # The limit was lowered: in the new round the last to come back are turned away.
                self._rebalancer.prepare_rebalance(group, now, decision)
        self._schedule_cleanup(now)
        return decision

    def decide_deadlines(self, now: Moment) -> Decision[None]:
        decision = Decision(None)
        for kind, group_id, member_id in self._deadlines.pop_due(now.ticks_ms):
            if kind == "cleanup":
                self._clean_up(now, decision)
                continue
            group = self.groups.get(group_id)
            if group is None:
                continue
            if kind == SESSION:
                self._rebalancer.expire_session(group, member_id, now, decision)
                self._maybe_forget(group)
            elif kind == JOIN:
                self._rebalancer.expire_join(group, now, decision)
            elif kind == SYNC:
                self._rebalancer.expire_sync(group, now, decision)
        return decision

    def _clean_up(self, now: Moment, decision: Decision[None]) -> None:
        """Expired offsets go, and with its last offset a group without members."""
        waiting = self.offsets.pending.group_ids()
        for group_id, group in list(self.groups.items()):
            if group_id in waiting:
                continue
            kept = sum(len(partitions) for partitions in self.offsets.of_group(group_id).values())
            expired = offsets.expired_offsets(group, self.offsets, group_id, now, self._settings.offsets_retention_ms)
            decision.records.extend(expired)
            if len(expired) == kept and group.state is _S.EMPTY and not group.pending_members:
                decision.records.append(GroupMetadataRecord(group_id, None))
        self._schedule_cleanup(now)

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
            group.state = _S.DEAD
        return decision
