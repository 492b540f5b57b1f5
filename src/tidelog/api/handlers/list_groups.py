"""ListGroups: the groups this node coordinates, by state and type if asked; of them those that the caller may see."""

from __future__ import annotations

from tidelog.api.authorization import NONE_DENIED, authorize, denied
from tidelog.api.context import RequestContext
from tidelog.model.access import CLUSTER, Operation, ResourceType
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def handle(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    try:
        groups = await context.services.groups.list_groups(request.states_filter, request.types_filter)
    except BrokerError as error:
        return ListGroupsResponse(error_code=error.code)
    hidden = NONE_DENIED
    if context.services.authorizer is not None and not authorize(context, Operation.DESCRIBE, CLUSTER):
        hidden = denied(context, Operation.DESCRIBE, ResourceType.GROUP, (group[0] for group in groups))
    return ListGroupsResponse(
        groups=[
            ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=group_type)
            for group_id, protocol_type, state, group_type in groups
            if group_id not in hidden
        ]
    )
