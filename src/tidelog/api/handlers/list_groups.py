"""ListGroups: the groups this node coordinates, by state and type if asked."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def handle(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    try:
        groups = await context.services.groups.list_groups(request.states_filter, request.types_filter)
    except BrokerError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(
        groups=[
            ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=group_type)
            for group_id, protocol_type, state, group_type in groups
        ]
    )
