"""ConsumerGroupHeartbeat: the coordinator's own request and reply, or the error that it is refused with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.api.codecs.codec import Codec
from tidelog.codec.buffers import Buffer
from tidelog.groups.coordinator import new_member_suffix
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, HeartbeatReply
from tidelog.model.errors import NO_ERROR, BrokerError, ErrorCode
from tidelog.net.reply import Buffers
from tidelog.protocol.hot_groups import decode_consumer_heartbeat, encode_consumer_heartbeat_response

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext

FIRST_VERSION_WITH_MEMBERS_OWN_ID: Final = 1


class ConsumerGroupHeartbeatCodec(Codec):
    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> ConsumerHeartbeat:
        version = context.version
        group_id, member_id, epoch, instance_id, rack_id, rebalance_ms, topics, pattern, assignor, owned = (
            decode_consumer_heartbeat(frame, position, version)
        )
        return ConsumerHeartbeat(
            group_id,
            member_id,
            epoch,
            instance_id,
            rack_id,
            rebalance_ms,
            topics,
            pattern,
            assignor,
            owned,
            context.client_id or "",
            f"/{context.caller.peer_host}",
            "" if member_id else new_member_suffix(context.services.groups.random_bytes),
            version >= FIRST_VERSION_WITH_MEMBERS_OWN_ID,
        )

    def encode_response(self, context: RequestContext, response: HeartbeatReply | BrokerError) -> bytes | Buffers:
        if isinstance(response, HeartbeatReply) and response.error is NO_ERROR:
            return encode_consumer_heartbeat_response(
                response.member_id,
                response.member_epoch,
                response.heartbeat_interval_ms,
                response.assignment,
                context.throttle_ms,
            )
        from tidelog.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

        refused = ConsumerGroupHeartbeatResponse(throttle_time_ms=context.throttle_ms)
        if isinstance(response, BrokerError):
            refused.error_code, refused.error_message = response.code, response.message
        else:
            refused.error_code = response.error
        return refused.encode(context.version)

    def refuse(self, context: RequestContext, request: ConsumerHeartbeat, error: BrokerError) -> BrokerError:
        return error

    def encode_request(self, context: RequestContext, request: ConsumerHeartbeat) -> bytes:
        from tidelog.protocol.generated.consumer_group_heartbeat import (
            ConsumerGroupHeartbeatRequest,
            ConsumerGroupHeartbeatRequestTopicPartitions,
        )

        owned = request.owned
        return ConsumerGroupHeartbeatRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            subscribed_topic_names=None if request.topics is None else list(request.topics),
            subscribed_topic_regex=request.pattern,
            server_assignor=request.assignor,
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=list(found))
                for topic_id, found in owned.items()
            ],
        ).encode(context.version)

    def decode_response(self, context: RequestContext, body: bytes) -> HeartbeatReply | BrokerError:
        from tidelog.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

        response, _ = ConsumerGroupHeartbeatResponse.decode(body, 0, context.version)
        if response.error_code:
            return BrokerError(ErrorCode(response.error_code), response.error_message or "")
        assignment = response.assignment
        return HeartbeatReply(
            response.member_id or "",
            response.member_epoch,
            response.heartbeat_interval_ms,
            None
            if assignment is None
            else {bytes(each.topic_id): tuple(each.partitions) for each in assignment.topic_partitions},
        )


CODEC = ConsumerGroupHeartbeatCodec()
