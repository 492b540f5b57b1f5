"""JoinGroup: waits in the coordinator until the group's round is complete."""

from __future__ import annotations

from typing import Final

from tidelog.api.context import RequestContext
from tidelog.api.parked import reply_when_done
from tidelog.codec.buffers import Buffer
from tidelog.groups.coordinator import fresh_member_suffix
from tidelog.groups.core.messages import UNKNOWN_MEMBER_ID, Join, Joined
from tidelog.model.errors import BrokerError
from tidelog.net.reply import PendingReply
from tidelog.protocol.hot_groups import JOIN_FLEXIBLE_FROM, decode_join, encode_join_response

FIRST_VERSION_WITH_REBALANCE_TIMEOUT: Final = 1
FIRST_VERSION_WITH_KNOWN_MEMBER_ID: Final = 4
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT: Final = 9


def handle_frame(context: RequestContext, frame: Buffer, position: int) -> bytes | PendingReply:
    version = context.version
    group_id, session_ms, rebalance_ms, member_id, instance_id, protocol_type, protocols = decode_join(
        frame, position, version
    )
    join = Join(
        group_id,
        member_id,
        instance_id,
        protocol_type,
        tuple(protocols),
        session_ms,
        rebalance_ms if version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT else session_ms,
        context.client_id or "",
        f"/{context.peer_host}",
        fresh_member_suffix() if member_id == UNKNOWN_MEMBER_ID else "",
        version >= FIRST_VERSION_WITH_KNOWN_MEMBER_ID,
        version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT,
    )
    try:
        joined, later = context.services.groups.join(join)
    except BrokerError as error:
        return _answer(version, Joined(error.code, member_id))
    if joined is not None:
        return _answer(version, joined)
    assert later is not None
    return reply_when_done(
        context, later, lambda joined: _answer(version, joined), lambda error: Joined(error.code, member_id)
    )


def _answer(version: int, joined: Joined) -> bytes:
    if version >= JOIN_FLEXIBLE_FROM:
        return encode_join_response(
            version,
            joined.error,
            joined.generation,
            joined.protocol_type,
            joined.protocol,
            joined.leader,
            joined.member_id,
            joined.skip_assignment,
            joined.members,
        )
    from tidelog.protocol.generated.join_group import JoinGroupResponse, JoinGroupResponseMember

    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol or "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(member_id=each, group_instance_id=instance_id, metadata=metadata)
            for each, instance_id, metadata in joined.members
        ],
    ).encode(version)
