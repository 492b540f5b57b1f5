"""JoinGroup: waits in the coordinator until the group's round is complete."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from tidelog.api.context import RequestContext
from tidelog.groups.coordinator import fresh_member_suffix
from tidelog.groups.core.messages import UNKNOWN_MEMBER_ID, Join, Joined
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_WITH_KNOWN_MEMBER_ID = 4
FIRST_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT = 9


def handle(
    context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Coroutine[Any, Any, JoinGroupResponse]:
    version = context.version
    join = Join(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        tuple([(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols]),
        request.session_timeout_ms,
        (
            request.rebalance_timeout_ms
            if version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT
            else request.session_timeout_ms
        ),
        context.client_id or "",
        f"/{context.peer_host}",
        fresh_member_suffix() if request.member_id == UNKNOWN_MEMBER_ID else "",
        version >= FIRST_VERSION_WITH_KNOWN_MEMBER_ID,
        version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT,
    )
    try:
        joined, later = context.services.groups.join(join)
    except BrokerError as error:
        return _answer(version, Joined(error.code, request.member_id))
    if joined is not None:
        return _answer(version, joined)
    assert later is not None
    return _answer_later(version, request.member_id, later)


async def _answer_later(version: int, member_id: str, later: Coroutine[Any, Any, Joined]) -> JoinGroupResponse:
    try:
        joined = await later
    except BrokerError as error:
        joined = Joined(error.code, member_id)
    return _answer(version, joined)


def _answer(version: int, joined: Joined) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=(joined.protocol if version >= FIRST_VERSION_WITH_NULL_PROTOCOL else joined.protocol or ""),
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in joined.members
        ],
    )
