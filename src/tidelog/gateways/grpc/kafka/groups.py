"""Groups of `api.Kafka`: clients choose their names, and send no generation.

A consumer is a static member of an ordinary consumer group: its id is the group instance id. One that joins again
by its name, through this node or another, is therefore the same member, and Kafka's tools show the name. This node
remembers the member id and the generation that belong to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.gateways.coordinator import AsMember, GroupAccess
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
from tidelog.gateways.grpc.generated import api_pb2
from tidelog.gateways.grpc.generated.api_pb2 import (
    CommitOffsetResponse,
    FetchOffsetResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    PartitionAssignment,
    SyncGroupResponse,
    TopicMetadata,
)
from tidelog.gateways.grpc.group_descriptions import describe_group
from tidelog.gateways.grpc.held_members import HeldMember
from tidelog.gateways.grpc.status import invalid
from tidelog.gateways.grpc.typed_requests import Joined, Sync
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.generated.api_pb2 import (
        CommitOffsetRequest,
        FetchOffsetRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        SyncGroupRequest,
    )
    from tidelog.gateways.grpc.shared import Shared

JOIN_AGAIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


class GroupMethods:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def commit_offset(self, access: LogAccess, request: CommitOffsetRequest) -> CommitOffsetResponse:
        offset = NewOffset(TopicPartition(request.topic, request.partition), request.offset)
        await commit_as_owner(self._shared, access, request.consumer_group_id, [offset])
        return CommitOffsetResponse()

    async def fetch_offset(self, access: LogAccess, request: FetchOffsetRequest) -> FetchOffsetResponse:
        place = TopicPartition(request.topic, request.partition)
        committed = await GroupAccess(access, request.consumer_group_id).committed([place])
        return FetchOffsetResponse(offset=committed[place].offset if place in committed else -1)

    async def join_group(self, access: LogAccess, request: JoinGroupRequest) -> JoinGroupResponse:
        if not request.consumer_id:
            raise invalid("A consumer must have an id.")
        topic = await access.find_topic(request.topic)
        group = ClassicGroup(access, request.group_id)
        held = self._shared.held.find(request.group_id, request.consumer_id)
        joined = await self._join(access, group, request, "" if held is None else held.name.member_id)
        if joined.error in UNKNOWN and held is not None:
            # The member was given up in the meantime: under the same name it joins as a new one.
            joined = await self._join(access, group, request, "")
        if joined.error:
            return JoinGroupResponse(error_code=_told(joined.error))
        names = {member_id: instance_id or member_id for member_id, instance_id, _ in joined.members}
        held = HeldMember(
            request.group_id, AsMember(joined.member_id, joined.generation, request.consumer_id), [request.topic]
        )
        held.topics_by_member = {member_id: subscribed_topics(metadata) for member_id, _, metadata in joined.members}
        held.member_ids = {name: member_id for member_id, name in names.items()}
        self._shared.held.hold(held)
        is_leader = joined.leader == joined.member_id
        leader = request.consumer_id if is_leader else await _name_of(group, joined.leader)
        return JoinGroupResponse(
            leader_id=leader,
            is_leader=is_leader,
            members={name: TopicMetadata() for name in names.values()},
            partitions=sorted(each.partition_index for each in topic.partitions),
        )

    async def _join(self, access: LogAccess, group: ClassicGroup, request: JoinGroupRequest, member_id: str) -> Joined:
        subscription = encode_subscription([request.topic])
        return await group.join(
            self._shared.join_request(
                access,
                request.group_id,
                member_id,
                ((RANGE, subscription), (ROUND_ROBIN, subscription)),
                instance_id=request.consumer_id,
            )
        )

    async def sync_group(self, access: LogAccess, request: SyncGroupRequest) -> SyncGroupResponse:
        held = self._shared.held.find(request.group_id, request.consumer_id)
        if held is None:
            return SyncGroupResponse(error_code=api_pb2.UNKNOWN_MEMBER_ID)
        name = held.name
        sync = Sync(request.group_id, name.member_id, name.instance_id, name.epoch, None, None, _given(request, held))
        synced = await ClassicGroup(access, request.group_id).sync(sync)
        if synced.error:
            return SyncGroupResponse(error_code=_told(synced.error))
        assignment = decode_assignment(synced.assignment)
        self._shared.held.assign(held, assignment)
        return SyncGroupResponse(assignment=PartitionAssignment(partitions=assignment.get(held.topics[0], ())))

    async def heartbeat(self, access: LogAccess, request: HeartbeatRequest) -> HeartbeatResponse:
        held = self._shared.held.find(request.group_id, request.consumer_id)
        if held is None:
            return HeartbeatResponse(error_code=api_pb2.UNKNOWN_MEMBER_ID)
        error = await ClassicGroup(access, request.group_id).heartbeat(held.name)
        return HeartbeatResponse(error_code=_told(error) if error else api_pb2.OK)


def _told(error: ErrorCode) -> api_pb2.ErrorCode:
    """In the words of this service. Raises BrokerError for what it has no word for."""
    if error in JOIN_AGAIN:
        return api_pb2.REBALANCE_IN_PROGRESS
    if error in UNKNOWN:
        return api_pb2.UNKNOWN_MEMBER_ID
    raise BrokerError(error)


def _given(request: SyncGroupRequest, held: HeldMember) -> list[tuple[str, bytes]]:
    """What the leader gives each member. Its map has no topics, so each member must want exactly one."""
    assignments = []
    for name, assigned in request.assignments.items():
        member_id = held.member_ids.get(name)
        if member_id is None:
            raise invalid(f"The group has no member {name}, or {request.consumer_id} does not lead it.")
        topics = held.topics_by_member[member_id]
        if len(topics) != 1:
            raise invalid(f"Member {name} wants {len(topics)} topics: this call can assign partitions of one only.")
        assignments.append((member_id, encode_assignment({topics[0]: list(assigned.partitions)})))
    return assignments


async def _name_of(group: GroupAccess, member_id: str) -> str:
    """The consumer id of a member that has one."""
    described = await describe_group(group)
    for member in described.members:
        if member.member_id == member_id:
            return member.group_instance_id or member_id
    return member_id
