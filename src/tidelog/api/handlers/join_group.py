"""JoinGroup: waits in the coordinator until the group's round is complete."""

from __future__ import annotations

from tidelog.api.authorization import require
from tidelog.api.context import RequestContext
from tidelog.api.parked import answer_when_done
from tidelog.groups.core.messages import Join, Joined
from tidelog.model.access import Operation, ResourceType
from tidelog.net.later import Later


def handle(context: RequestContext, request: Join) -> Joined | Later[Joined]:
    services = context.services
    if services.authorizer is not None:
        require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    joined, later = services.groups.join(request)
    if joined is not None:
        return joined
    assert later is not None
    return answer_when_done(later)
