"""DeleteGroups: groups without members, with all their offsets."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.protocol.generated.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


async def handle(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    results = await context.services.groups.delete_groups(request.groups_names)
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group_id, error_code=error) for group_id, error in results]
    )
