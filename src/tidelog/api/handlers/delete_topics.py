"""DeleteTopics: by name, and from version 6 on by topic id."""

from __future__ import annotations

from tidelog.api.authorization import authorize, denied
from tidelog.api.context import RequestContext
from tidelog.controller.core.topics import TopicOutcome
from tidelog.model.access import CLUSTER, Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

FIRST_VERSION_BY_ID = 6
FIRST_VERSION_WITH_DISABLED = 3


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    topics: list[tuple[str | None, bytes]] = (
        [(topic.name, topic.topic_id) for topic in request.topics]
        if context.version >= FIRST_VERSION_BY_ID
        else [(name, ZERO_TOPIC_ID) for name in request.topic_names]
    )
    refused: list[TopicOutcome] = []
    try:
        if not context.services.config.delete_topic_enable:
            raise BrokerError(
                ErrorCode.TOPIC_DELETION_DISABLED
                if context.version >= FIRST_VERSION_WITH_DISABLED
                else ErrorCode.INVALID_REQUEST
            )
        if context.services.authorizer is not None and not authorize(context, Operation.DELETE, CLUSTER):
            topics, refused = _refuse(context, topics)
        outcomes = await context.services.controller.delete_topics(topics)
    except BrokerError as error:
        outcomes = [TopicOutcome(name, topic_id, error) for name, topic_id in topics]
    outcomes += refused
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=outcome.name,
                topic_id=outcome.topic_id,
                error_code=ErrorCode.NONE if outcome.error is None else outcome.error.code,
                error_message=None if outcome.error is None else outcome.error.message,
            )
            for outcome in outcomes
        ]
    )


def _refuse(
    context: RequestContext, topics: list[tuple[str | None, bytes]]
) -> tuple[list[tuple[str | None, bytes]], list[TopicOutcome]]:
    """The topics that the caller may delete, and the refusals of the others.

    Names are not given away: the caller learns neither that of an id that it may not describe, nor whether there is a
    topic with a name that it may not describe.
    """
    image = context.services.metadata.image
    names = [name for name, _ in topics if name is not None]
    names += [image.topics_by_id[topic_id].name for _, topic_id in topics if topic_id in image.topics_by_id]
    undeletable = denied(context, Operation.DELETE, ResourceType.TOPIC, names)
    hidden = denied(context, Operation.DESCRIBE, ResourceType.TOPIC, names)
    error = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    allowed: list[tuple[str | None, bytes]] = []
    refused: dict[str | bytes, TopicOutcome] = {}
    for name, topic_id in topics:
        if name is not None:
            if name not in hidden and name in undeletable and name not in image.topics:
                refused[name] = TopicOutcome(name, error=BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            elif name in hidden or name in undeletable:
                refused[name] = TopicOutcome(name, error=error)
            else:
                allowed.append((name, topic_id))
            continue
        topic = image.topics_by_id.get(topic_id)
        if topic is None and topic_id != ZERO_TOPIC_ID:
            # Answered here: by the time the controller looks, there could be a topic that was not asked about.
            refused[topic_id] = TopicOutcome(None, topic_id, BrokerError(ErrorCode.UNKNOWN_TOPIC_ID))
        elif topic is not None and topic.name in undeletable:
            refused[topic_id] = TopicOutcome(None if topic.name in hidden else topic.name, topic_id, error)
        else:
            allowed.append((None, topic_id))
    return allowed, list(refused.values())
