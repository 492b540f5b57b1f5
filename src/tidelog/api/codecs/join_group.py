"""JoinGroup: the coordinator's own request and reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.api.codecs.codec import Codec
from tidelog.codec.buffers import Buffer
from tidelog.groups.coordinator import new_member_suffix
from tidelog.groups.core.messages import UNKNOWN_MEMBER_ID, Join, Joined
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.reply import Buffers
from tidelog.protocol.hot_groups import JOIN_FLEXIBLE_FROM, decode_join, encode_join_response

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext

FIRST_VERSION_WITH_REBALANCE_TIMEOUT: Final = 1
FIRST_VERSION_WITH_KNOWN_MEMBER_ID: Final = 4
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT: Final = 9


class JoinGroupCodec(Codec):
    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> Join:
        version = context.version
        group_id, session_ms, rebalance_ms, member_id, instance_id, protocol_type, protocols = decode_join(
            frame, position, version
        )
        return Join(
            group_id,
            member_id,
            instance_id,
            protocol_type,
            tuple(protocols),
            session_ms,
            rebalance_ms if version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT else session_ms,
            context.client_id or "",
            f"/{context.caller.peer_host}",
            new_member_suffix(context.services.groups.random_bytes) if member_id == UNKNOWN_MEMBER_ID else "",
            version >= FIRST_VERSION_WITH_KNOWN_MEMBER_ID,
            version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT,
        )

    def encode_response(self, context: RequestContext, response: Joined) -> bytes | Buffers:
        version = context.version
        if version >= JOIN_FLEXIBLE_FROM:
            return encode_join_response(
                version,
                response.error,
                response.generation,
                response.protocol_type,
                response.protocol,
                response.leader,
                response.member_id,
                response.skip_assignment,
                response.members,
                context.throttle_ms,
            )
        from tidelog.protocol.generated.join_group import JoinGroupResponse, JoinGroupResponseMember

        return JoinGroupResponse(
            throttle_time_ms=context.throttle_ms,
            error_code=response.error,
            generation_id=response.generation,
            protocol_type=response.protocol_type,
            protocol_name=response.protocol or "",
            leader=response.leader,
            skip_assignment=response.skip_assignment,
            member_id=response.member_id,
            members=[
                JoinGroupResponseMember(member_id=each, group_instance_id=instance_id, metadata=metadata)
                for each, instance_id, metadata in response.members
            ],
        ).encode(version)

    def refuse(self, context: RequestContext, request: Join, error: BrokerError) -> Joined:
        return Joined(error.code, request.member_id)

    def encode_request(self, context: RequestContext, request: Join) -> bytes:
        from tidelog.protocol.generated.join_group import JoinGroupRequest, JoinGroupRequestProtocol

        return JoinGroupRequest(
            group_id=request.group_id,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            protocol_type=request.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in request.protocols],
        ).encode(context.version)

    def decode_response(self, context: RequestContext, body: bytes) -> Joined:
        from tidelog.protocol.generated.join_group import JoinGroupResponse

        response, _ = JoinGroupResponse.decode(body, 0, context.version)
        return Joined(
            ErrorCode(response.error_code),
            response.member_id,
            response.generation_id,
            response.protocol_type,
            response.protocol_name,
            response.leader,
            [(each.member_id, each.group_instance_id, bytes(each.metadata)) for each in response.members],
            response.skip_assignment,
        )


CODEC = JoinGroupCodec()
