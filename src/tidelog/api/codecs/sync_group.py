"""SyncGroup: the coordinator's own request and reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.api.codecs.codec import Codec
from tidelog.codec.buffers import Buffer
from tidelog.groups.core.messages import Sync, Synced
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.reply import Buffers
from tidelog.protocol.hot_groups import SYNC_FLEXIBLE_FROM, decode_sync, encode_sync_response

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext


class SyncGroupCodec(Codec):
    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> Sync:
        group_id, generation, member_id, instance_id, protocol_type, protocol, assignments = decode_sync(
            frame, position, context.version
        )
        return Sync(group_id, member_id, instance_id, generation, protocol_type, protocol, assignments)

    def encode_response(self, context: RequestContext, response: Synced) -> bytes | Buffers:
        version, throttle_ms = context.version, context.throttle_ms
        if version >= SYNC_FLEXIBLE_FROM:
            return encode_sync_response(
                version, response.error, response.protocol_type, response.protocol, response.assignment, throttle_ms
            )
        from tidelog.protocol.generated.sync_group import SyncGroupResponse

        return SyncGroupResponse(
            throttle_time_ms=throttle_ms, error_code=response.error, assignment=response.assignment
        ).encode(version)

    def refuse(self, context: RequestContext, request: Sync, error: BrokerError) -> Synced:
        return Synced(error.code)

    def encode_request(self, context: RequestContext, request: Sync) -> bytes:
        from tidelog.protocol.generated.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

        return SyncGroupRequest(
            group_id=request.group_id,
            generation_id=request.generation,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in request.assignments
            ],
        ).encode(context.version)

    def decode_response(self, context: RequestContext, body: bytes) -> Synced:
        from tidelog.protocol.generated.sync_group import SyncGroupResponse

        response, _ = SyncGroupResponse.decode(body, 0, context.version)
        return Synced(
            ErrorCode(response.error_code), response.protocol_type, response.protocol_name, bytes(response.assignment)
        )


CODEC = SyncGroupCodec()
