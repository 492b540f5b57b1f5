"""Heartbeat: the coordinator's own request, and an error code as the response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.api.codecs.codec import Codec
from tidelog.codec.buffers import Buffer
from tidelog.groups.core.messages import Heartbeat
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.reply import Buffers
from tidelog.protocol.hot_groups import decode_heartbeat, encode_heartbeat_response

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext


class HeartbeatCodec(Codec):
    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> Heartbeat:
        group_id, generation, member_id, instance_id = decode_heartbeat(frame, position, context.version)
        return Heartbeat(group_id, member_id, instance_id, generation)

    def encode_response(self, context: RequestContext, response: ErrorCode) -> bytes | Buffers:
        return encode_heartbeat_response(context.version, response, context.throttle_ms)

    def refuse(self, context: RequestContext, request: Heartbeat, error: BrokerError) -> ErrorCode:
        return error.code

    def encode_request(self, context: RequestContext, request: Heartbeat) -> bytes:
        from tidelog.protocol.generated.heartbeat import HeartbeatRequest

        return HeartbeatRequest(
            group_id=request.group_id,
            generation_id=request.generation,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
        ).encode(context.version)

    def decode_response(self, context: RequestContext, body: bytes) -> ErrorCode:
        from tidelog.protocol.generated.heartbeat import HeartbeatResponse

        return ErrorCode(HeartbeatResponse.decode(body, 0, context.version)[0].error_code)


CODEC = HeartbeatCodec()
