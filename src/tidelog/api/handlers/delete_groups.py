"""DeleteGroups: groups without members, with all their offsets."""

from __future__ import annotations

from tidelog.api.authorization import denied
from tidelog.api.context import RequestContext
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


async def handle(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    names = request.groups_names
    refused = denied(context, Operation.DELETE, ResourceType.GROUP, names)
    if refused:
        names = [name for name in names if name not in refused]
    results = await context.services.groups.delete_groups(names)
    results += ((name, ErrorCode.GROUP_AUTHORIZATION_FAILED) for name in sorted(refused))
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group_id, error_code=error) for group_id, error in results]
    )
