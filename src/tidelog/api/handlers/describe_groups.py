"""DescribeGroups: classic groups with their members; an unknown group is Dead, and from version 6 on an error."""

from __future__ import annotations

from tidelog.api.authorization import denied
from tidelog.api.authorized_operations import NOT_ASKED, group_operations
from tidelog.api.context import RequestContext
from tidelog.groups.core import messages
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

FIRST_VERSION_WITH_NOT_FOUND = 6


async def handle(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    group_ids = request.groups
    refused = denied(context, Operation.DESCRIBE, ResourceType.GROUP, group_ids)
    if refused:
        group_ids = [group_id for group_id in group_ids if group_id not in refused]
    described = await context.services.groups.describe_groups(group_ids)
    answers = [_answer(context, group, request.include_authorized_operations) for group in described]
    answers += (
        DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, error_message=None, group_id=group_id)
        for group_id in sorted(refused)
    )
    return DescribeGroupsResponse(groups=answers)


def _answer(context: RequestContext, group: messages.DescribedGroup, with_operations: bool) -> DescribedGroup:
    version = context.version
    error = group.error
    if error is ErrorCode.GROUP_ID_NOT_FOUND and version < FIRST_VERSION_WITH_NOT_FOUND:
        error = ErrorCode.NONE
    return DescribedGroup(
        error_code=error,
        error_message=group.error_message if version >= FIRST_VERSION_WITH_NOT_FOUND else None,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=group_operations(context, group.group_id)
        if with_operations and error is ErrorCode.NONE
        else NOT_ASKED,
    )
