"""ConsumerGroupHeartbeat: a member of a consumer group joins, reports, is assigned partitions, leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from tidelog.api.context import RequestContext
from tidelog.groups.coordinator import fresh_member_suffix
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, HeartbeatReply
from tidelog.model.errors import NO_ERROR, BrokerError
from tidelog.protocol.generated.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tidelog.protocol.hot_groups import decode_consumer_heartbeat as decode_request
from tidelog.protocol.hot_groups import encode_consumer_heartbeat_response

if TYPE_CHECKING:
    from tidelog.protocol.hot_groups import ConsumerFields

__all__ = ["decode_request", "handle"]

FIRST_VERSION_WITH_MEMBERS_OWN_ID: Final = 1

Response = ConsumerGroupHeartbeatResponse | bytes


def handle(context: RequestContext, request: ConsumerFields) -> Response | Coroutine[Any, Any, Response]:
    group_id, member_id, epoch, instance_id, rack_id, rebalance_ms, topics, pattern, assignor, owned = request
    beat = ConsumerHeartbeat(
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
        f"/{context.peer_host}",
        "" if member_id else fresh_member_suffix(),
        context.version >= FIRST_VERSION_WITH_MEMBERS_OWN_ID,
    )
    try:
        reply, commit = context.services.groups.consumer_heartbeat(beat)
    except BrokerError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    if commit is not None:
        return _answer_when_committed(reply, commit)
    return _answer(reply)


async def _answer_when_committed(reply: HeartbeatReply, commit: Awaitable[None]) -> Response:
    try:
        await commit
    except BrokerError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    return _answer(reply)


def _answer(reply: HeartbeatReply) -> Response:
    if reply.error is not NO_ERROR:
        return ConsumerGroupHeartbeatResponse(error_code=reply.error)
    return encode_consumer_heartbeat_response(
        reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms, reply.assignment
    )
