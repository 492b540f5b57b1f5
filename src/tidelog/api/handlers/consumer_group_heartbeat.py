"""ConsumerGroupHeartbeat: a member of a consumer group joins, reports, is assigned partitions, leaves."""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.api.authorization import denied, require
from tidelog.api.context import RequestContext
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, HeartbeatReply
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.later import Later, answer_from


def handle(context: RequestContext, request: ConsumerHeartbeat) -> HeartbeatReply | Later[HeartbeatReply]:
    services = context.services
    if services.authorizer is not None:
        _require_permissions(context, request)
    reply, commit = services.groups.consumer_heartbeat(request)
    if commit is not None:
        return answer_from(_answer_when_committed(reply, commit), services.tasks)
    return reply


def _require_permissions(context: RequestContext, request: ConsumerHeartbeat) -> None:
    """A member subscribes to names that it may know of, all of them."""
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    if request.topics and denied(context, Operation.DESCRIBE, ResourceType.TOPIC, request.topics):
        raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def _answer_when_committed(reply: HeartbeatReply, commit: Awaitable[None]) -> HeartbeatReply:
    await commit
    return reply
