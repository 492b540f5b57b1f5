"""Produce: asks what the producer may write, then has the partitions append it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tidelog.api.authorization import authorize
from tidelog.api.context import RequestContext
from tidelog.model.access import Operation, Resource, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.net.later import Later, answer_from
from tidelog.partitions.producing import ProduceRequest, ProduceResponse, Refusals
from tidelog.transactions.writes import has_transactional_batch

if TYPE_CHECKING:
    from tidelog.protocol.hot_produce import ProducedTopic


def handle(context: RequestContext, request: ProduceRequest) -> ProduceResponse | Later[ProduceResponse] | None:
    services = context.services
    transactional_id = request.transactional_id
    topics = request.topics
    denied: dict[TopicPartition, BrokerError] | None = None
    if services.authorizer is not None:
        topics, denied = _divide(context, topics)
    if transactional_id is None:
        if has_transactional_batch(request.topics):
            error = BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return services.producing.refuse(request, error)
        return _append(context, request, denied)
    if not authorize(context, Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)):
        return services.producing.refuse(request, BrokerError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    refused = services.transactional_writes.check_produce(transactional_id, topics, context.version)
    if isinstance(refused, Coroutine):
        return answer_from(_append_when_added(context, request.detached(), denied, refused), services.tasks)
    return _append(context, request, {**refused, **denied} if denied else refused)


def _append(
    context: RequestContext, request: ProduceRequest, refused: Refusals | None
) -> ProduceResponse | Later[ProduceResponse] | None:
    return context.services.producing.append(
        request, refused, context.version, context.client_id, context.caller.listener_name
    )


async def _append_when_added(
    context: RequestContext,
    request: ProduceRequest,
    denied: Refusals | None,
    checking: Coroutine[Any, Any, Refusals],
) -> ProduceResponse | None:
    """Appends when the transaction coordinator has answered; later requests of the connection wait so long."""
    # From the coordinator's answer to the append nothing else runs: what it allows is still allowed.
    refused = await checking
    answer = _append(context, request, {**refused, **denied} if denied else refused)
    return await answer.wait() if isinstance(answer, Later) else answer


def _divide(
    context: RequestContext, topics: list[ProducedTopic]
) -> tuple[list[ProducedTopic], dict[TopicPartition, BrokerError]]:
    """The topics that the caller may write to, and refusals for the partitions of the others: those do not become part
    of a transaction either."""
    allowed: list[ProducedTopic] = []
    denied: dict[TopicPartition, BrokerError] = {}
    by_id = context.services.metadata.image.topics_by_id
    for produced in topics:
        name, topic_id, batches = produced
        if name is None:
            topic = by_id.get(topic_id or b"")
            name = None if topic is None else topic.name
        if name is None or authorize(context, Operation.WRITE, Resource(ResourceType.TOPIC, name)):
            allowed.append(produced)
        else:
            error = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            denied |= {TopicPartition(name, index): error for index, _ in batches}
    return allowed, denied
