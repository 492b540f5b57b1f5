"""ConsumerGroupHeartbeat: a member of a consumer group joins, reports, is assigned partitions, leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from tidelog.api.context import RequestContext
from tidelog.groups.coordinator import fresh_member_suffix
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, HeartbeatReply
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

FIRST_VERSION_WITH_MEMBERS_OWN_ID = 1


def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
    owned = None
    if request.topic_partitions is not None:
        owned = {topic.topic_id: tuple(topic.partitions) for topic in request.topic_partitions}
    beat = ConsumerHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        request.subscribed_topic_names,
        request.subscribed_topic_regex,
        request.server_assignor,
        owned,
        context.client_id or "",
        f"/{context.peer_host}",
        "" if request.member_id else fresh_member_suffix(),
        context.version >= FIRST_VERSION_WITH_MEMBERS_OWN_ID,
    )
    try:
        reply, commit = context.services.groups.consumer_heartbeat(beat)
    except BrokerError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    if commit is not None:
        return _answer_when_committed(reply, commit)
    return _answer(reply)


async def _answer_when_committed(reply: HeartbeatReply, commit: Awaitable[None]) -> ConsumerGroupHeartbeatResponse:
    try:
        await commit
    except BrokerError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    return _answer(reply)


def _answer(reply: HeartbeatReply) -> ConsumerGroupHeartbeatResponse:
    if reply.error:
        return ConsumerGroupHeartbeatResponse(error_code=reply.error)
    assignment = None
    if reply.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in reply.assignment.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval_ms=reply.heartbeat_interval_ms,
        assignment=assignment,
    )
