"""Heartbeat: a member of a classic group is alive, and learns when it has to rejoin."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from tidelog.api.context import RequestContext
from tidelog.groups.core.messages import Heartbeat
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Coroutine[Any, Any, HeartbeatResponse]:
    beat = Heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    try:
        error, commit = context.services.groups.heartbeat(beat)
    except BrokerError as fault:
        return HeartbeatResponse(error_code=fault.code)
    if commit is not None:
        return _answer_when_committed(error, commit)
    return HeartbeatResponse(error_code=error)


async def _answer_when_committed(error: ErrorCode, commit: Awaitable[None]) -> HeartbeatResponse:
    try:
        await commit
    except BrokerError as fault:
        error = fault.code
    return HeartbeatResponse(error_code=error)
