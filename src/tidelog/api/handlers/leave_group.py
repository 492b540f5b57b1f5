"""LeaveGroup: one member before version 3, several from it on, by member id or by instance id."""

from __future__ import annotations

from tidelog.api.authorization import require
from tidelog.api.context import RequestContext
from tidelog.groups.core.messages import Leave, LeavingMember, Left
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

FIRST_VERSION_WITH_MEMBERS = 3


async def handle(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    names_several = context.version >= FIRST_VERSION_WITH_MEMBERS
    if names_several:
        members = [LeavingMember(member.member_id, member.group_instance_id) for member in request.members]
    else:
        members = [LeavingMember(request.member_id, None)]
    try:
        left = await context.services.groups.leave(Leave(request.group_id, members))
    except BrokerError as error:
        left = Left(error.code)
    if not names_several:
        return LeaveGroupResponse(error_code=left.error or (left.members[0].error if left.members else left.error))
    return LeaveGroupResponse(
        error_code=left.error,
        members=[
            MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=error)
            for member_id, instance_id, error in left.members
        ],
    )
