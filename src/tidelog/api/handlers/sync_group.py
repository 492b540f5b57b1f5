"""SyncGroup: the leader hands in the assignment, every member takes its own."""

from __future__ import annotations

from typing import Final

from tidelog.api.authorization import require
from tidelog.api.context import RequestContext
from tidelog.api.parked import answer_when_done
from tidelog.groups.core.messages import Sync, Synced
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.net.later import Later

FIRST_VERSION_WITH_PROTOCOL: Final = 5


def handle(context: RequestContext, request: Sync) -> Synced | Later[Synced]:
    if context.version >= FIRST_VERSION_WITH_PROTOCOL and (request.protocol_type is None or request.protocol is None):
        # From this version on the member says what it believes the group has agreed on.
        return Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    services = context.services
    if services.authorizer is not None:
        require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    synced, later = services.groups.sync(request)
    if synced is not None:
        return synced
    assert later is not None
    return answer_when_done(later)
