"""Offsets and groups of `tidelog.v1.Log`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.gateways.coordinator import Committed, GroupAccess
from tidelog.gateways.grpc.committing import NewOffset, commit_as_owner
from tidelog.gateways.grpc.consumer_protocol import decode_assignment
from tidelog.gateways.grpc.generated.tidelog_pb2 import (
    CommitOffsetsResponse,
    DeleteGroupResponse,
    DescribeGroupResponse,
    FetchOffsetsResponse,
    GroupMember,
    ListedGroup,
    ListGroupsResponse,
    Position,
)
from tidelog.gateways.grpc.group_descriptions import (
    delete_group,
    describe_consumer_group,
    describe_group,
    list_groups,
)
from tidelog.gateways.grpc.status import invalid
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.generated.tidelog_pb2 import (
        CommitOffsetsRequest,
        DeleteGroupRequest,
        DescribeGroupRequest,
        FetchOffsetsRequest,
        ListGroupsRequest,
    )
    from tidelog.gateways.grpc.shared import Shared

_NOTHING: Final = Committed(-1, -1, "")


class GroupMethods:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def commit_offsets(self, access: LogAccess, request: CommitOffsetsRequest) -> CommitOffsetsResponse:
        if not request.offsets:
            raise invalid("A commit has at least one offset.")
        offsets = [
            NewOffset(TopicPartition(each.topic, each.partition), each.offset, each.metadata)
            for each in request.offsets
        ]
        await commit_as_owner(self._shared, access, request.group_id, offsets)
        return CommitOffsetsResponse()

    async def fetch_offsets(self, access: LogAccess, request: FetchOffsetsRequest) -> FetchOffsetsResponse:
        asked = [TopicPartition(each.topic, each.partition) for each in request.partitions]
        found = await GroupAccess(access, request.group_id).committed(asked or None)
        positions = [(place, found.get(place, _NOTHING)) for place in asked or found]
        return FetchOffsetsResponse(
            offsets=[
                Position(topic=place.topic, partition=place.partition, offset=each.offset, metadata=each.metadata)
                for place, each in positions
            ]
        )

    async def list_groups(self, access: LogAccess, request: ListGroupsRequest) -> ListGroupsResponse:
        return ListGroupsResponse(
            groups=[
                ListedGroup(group_id=each.group_id, state=each.group_state, type=each.group_type)
                for each in await list_groups(access)
            ]
        )

    async def describe_group(self, access: LogAccess, request: DescribeGroupRequest) -> DescribeGroupResponse:
        coordinator = GroupAccess(access, request.group_id)
        try:
            group = await describe_group(coordinator)
        except BrokerError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return await _describe_consumer_group(coordinator)
        return DescribeGroupResponse(
            group_id=group.group_id,
            state=group.group_state,
            protocol=group.protocol_data,
            members=[
                GroupMember(
                    member_id=each.member_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    assignment=[
                        Position(topic=topic, partition=index, offset=-1)
                        for topic, indexes in decode_assignment(bytes(each.member_assignment)).items()
                        for index in indexes
                    ],
                )
                for each in group.members
            ],
        )

    async def delete_group(self, access: LogAccess, request: DeleteGroupRequest) -> DeleteGroupResponse:
        await delete_group(GroupAccess(access, request.group_id))
        return DeleteGroupResponse()


async def _describe_consumer_group(coordinator: GroupAccess) -> DescribeGroupResponse:
    group = await describe_consumer_group(coordinator)
    return DescribeGroupResponse(
        group_id=group.group_id,
        state=group.group_state,
        protocol=group.assignor_name,
        members=[
            GroupMember(
                member_id=each.member_id,
                client_id=each.client_id,
                client_host=each.client_host,
                assignment=[
                    Position(topic=topic.topic_name, partition=index, offset=-1)
                    for topic in each.assignment.topic_partitions
                    for index in topic.partitions
                ],
            )
            for each in group.members
        ],
    )
