"""JoinGroup: waits in the coordinator until the group's round is complete."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.groups.coordinator import fresh_member_suffix
from tidelog.groups.core.messages import UNKNOWN_MEMBER_ID, Join, Joined
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_WITH_KNOWN_MEMBER_ID = 4
FIRST_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT = 9


async def handle(context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    version = context.version
    join = Join(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms
            if version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT
            else request.session_timeout_ms
        ),
        client_id=context.client_id or "",
        client_host=f"/{context.peer_host}",
        fresh_id=fresh_member_suffix() if request.member_id == UNKNOWN_MEMBER_ID else "",
        requires_known_member_id=version >= FIRST_VERSION_WITH_KNOWN_MEMBER_ID,
        supports_skipping_assignment=version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT,
    )
    try:
        joined = await context.services.groups.join(join)
    except BrokerError as error:
        joined = Joined(error.code, request.member_id)
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
