"""ConsumerGroupHeartbeat: a member of a consumer group joins, reports, is assigned partitions, leaves."""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.api.authorization import denied, require
from tidelog.api.context import RequestContext
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, HeartbeatReply
from tidelog.groups.core.consumer.patterns import matching_topics
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
    """A member subscribes to topics that it may describe, all of them.

    A pattern is refused if it matches one topic that the member may not describe. Apache Kafka leaves such topics out;
    here patterns belong to the group and are matched again when no member asks.
    """
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    names = list(request.topics or ())
    if request.pattern:
        names += matching_topics(request.pattern, context.services.metadata.image.topics)
    if denied(context, Operation.DESCRIBE, ResourceType.TOPIC, names):
        raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def _answer_when_committed(reply: HeartbeatReply, commit: Awaitable[None]) -> HeartbeatReply:
    await commit
    return reply
