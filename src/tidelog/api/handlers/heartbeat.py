"""Heartbeat: a member of a classic group is alive, and learns when it has to rejoin."""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.api.authorization import require
from tidelog.api.context import RequestContext
from tidelog.groups.core.messages import Heartbeat
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.net.later import Later, answer_from


def handle(context: RequestContext, request: Heartbeat) -> ErrorCode | Later[ErrorCode]:
    services = context.services
    if services.authorizer is not None:
        require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    error, commit = services.groups.heartbeat(request)
    if commit is not None:
        return answer_from(_answer_when_committed(error, commit), services.tasks)
    return error


async def _answer_when_committed(error: ErrorCode, commit: Awaitable[None]) -> ErrorCode:
    await commit
    return error
