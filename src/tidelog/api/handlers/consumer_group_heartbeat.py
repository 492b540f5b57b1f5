"""ConsumerGroupHeartbeat: a member of a consumer group joins, reports, is assigned partitions, leaves."""

from __future__ import annotations

from collections.abc import Awaitable

from tidelog.api.context import RequestContext
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, HeartbeatReply
from tidelog.net.later import Later, answer_from


def handle(context: RequestContext, request: ConsumerHeartbeat) -> HeartbeatReply | Later[HeartbeatReply]:
    services = context.services
    reply, commit = services.groups.consumer_heartbeat(request)
    if commit is not None:
        return answer_from(_answer_when_committed(reply, commit), services.tasks)
    return reply


async def _answer_when_committed(reply: HeartbeatReply, commit: Awaitable[None]) -> HeartbeatReply:
    await commit
    return reply
