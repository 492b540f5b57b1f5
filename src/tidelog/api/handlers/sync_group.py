"""SyncGroup: the leader hands in the assignment, everyone takes theirs."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from tidelog.api.context import RequestContext
from tidelog.groups.core.messages import Sync, Synced
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Coroutine[Any, Any, SyncGroupResponse]:
    if context.version >= FIRST_VERSION_WITH_PROTOCOL and (
        request.protocol_type is None or request.protocol_name is None
    ):
        # From this version on the member says what it believes the group has agreed on.
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    sync = Sync(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=[(a.member_id, bytes(a.assignment)) for a in request.assignments],
    )
    try:
        synced, later = context.services.groups.sync(sync)
    except BrokerError as error:
        return SyncGroupResponse(error_code=error.code)
    if synced is not None:
        return _answer(synced)
    assert later is not None
    return _answer_later(later)


async def _answer_later(later: Coroutine[Any, Any, Synced]) -> SyncGroupResponse:
    try:
        synced = await later
    except BrokerError as error:
        synced = Synced(error.code)
    return _answer(synced)


def _answer(synced: Synced) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )
