"""DescribeGroups: classic groups with their members; an unknown group is Dead, and from version 6 on an error."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.groups.core import messages
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

FIRST_VERSION_WITH_NOT_FOUND = 6
EVERY_OPERATION_ON_A_GROUP = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: without access control everything is allowed."""
NOT_ASKED = -(2**31)


async def handle(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    described = await context.services.groups.describe_groups(request.groups)
    operations = EVERY_OPERATION_ON_A_GROUP if request.include_authorized_operations else NOT_ASKED
    return DescribeGroupsResponse(groups=[_answer(group, context.version, operations) for group in described])


def _answer(group: messages.DescribedGroup, version: int, operations: int) -> DescribedGroup:
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
        authorized_operations=operations,
    )
