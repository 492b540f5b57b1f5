"""Groups of `mq.MessageQueue`: ordinary consumer groups, whose members join, assign and send heartbeats themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.gateways.coordinator import AsMember
from tidelog.gateways.grpc.classic_group import ClassicGroup
from tidelog.gateways.grpc.committing import NewOffset, commit_as_owner
from tidelog.gateways.grpc.consumer_protocol import (
    RANGE,
    ROUND_ROBIN,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from tidelog.gateways.grpc.generated.mq_pb2 import (
    CommitOffsetResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    PartitionAssignments,
    SyncGroupResponse,
)
from tidelog.gateways.grpc.held_members import HeldMember
from tidelog.gateways.grpc.status import invalid
from tidelog.gateways.grpc.typed_requests import Sync
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.generated.mq_pb2 import (
        CommitOffsetRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
    )
    from tidelog.gateways.grpc.shared import Shared


class GroupMethods:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def commit_offset(self, access: LogAccess, request: CommitOffsetRequest) -> CommitOffsetResponse:
        offset = NewOffset(TopicPartition(request.topic, request.partition), request.offset)
        await commit_as_owner(self._shared, access, request.group_id, [offset])
        return CommitOffsetResponse(success=True)

    async def join_group(self, access: LogAccess, request: JoinGroupRequest) -> JoinGroupResponse:
        if not request.topics:
            raise invalid("A member must name its topics.")
        topics = list(request.topics)
        subscription = encode_subscription(topics)
        join = self._shared.join_request(
            access, request.group_id, request.member_id, ((RANGE, subscription), (ROUND_ROBIN, subscription))
        )
        joined = await ClassicGroup(access, request.group_id).join(join)
        if joined.error:
            raise BrokerError(joined.error)
        held = HeldMember(request.group_id, AsMember(joined.member_id, joined.generation), topics)
        held.topics_by_member = {member: subscribed_topics(metadata) for member, _, metadata in joined.members}
        self._shared.held.hold(held)
        return JoinGroupResponse(
            member_id=joined.member_id,
            generation_id=joined.generation,
            leader_id=joined.leader,
            members=[member for member, _, _ in joined.members],
        )

    async def sync_group(self, access: LogAccess, request: SyncGroupRequest) -> SyncGroupResponse:
        held = self._shared.held.find(request.group_id, request.member_id)
        assignments = []
        if request.assignment:
            assignments = _assignments(request.assignment, held)
        sync = Sync(request.group_id, request.member_id, None, request.generation_id, None, None, assignments)
        synced = await ClassicGroup(access, request.group_id).sync(sync)
        if synced.error:
            raise BrokerError(synced.error)
        assignment = decode_assignment(synced.assignment)
        if held is not None:
            self._shared.held.assign(held, assignment)
        return SyncGroupResponse(
            success=True,
            assignment={topic: PartitionAssignments(partitions=indexes) for topic, indexes in assignment.items()},
        )

    async def heartbeat(self, access: LogAccess, request: HeartbeatRequest) -> HeartbeatResponse:
        """REBALANCE_IN_PROGRESS (ABORTED): the member joins again."""
        name = AsMember(request.member_id, request.generation_id)
        self._shared.held.find(request.group_id, request.member_id)
        error = await ClassicGroup(access, request.group_id).heartbeat(name)
        if error:
            raise BrokerError(error)
        return HeartbeatResponse(success=True)

    async def leave_group(self, access: LogAccess, request: LeaveGroupRequest) -> LeaveGroupResponse:
        error = await ClassicGroup(access, request.group_id).leave(AsMember(request.member_id))
        if error:
            raise BrokerError(error)
        self._shared.held.drop(request.group_id, request.member_id)
        return LeaveGroupResponse(success=True)


def _assignments(given: Mapping[str, PartitionAssignments], held: HeldMember | None) -> list[tuple[str, bytes]]:
    """What the leader gives each member. Its map has no topics, so each member must want exactly one."""
    if held is None or not held.topics_by_member:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, "This node has not seen the member join as leader: join again.")
    assignments = []
    for member, assigned in given.items():
        topics = held.topics_by_member.get(member)
        if topics is None:
            raise invalid(f"The group has no member {member}.")
        if len(topics) != 1:
            raise invalid(f"Member {member} wants {len(topics)} topics: this call can assign partitions of one only.")
        assignments.append((member, encode_assignment({topics[0]: list(assigned.partitions)})))
    return assignments
