"""DeleteTopics: by name, and from version 6 on by topic id."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.controller.core.topics import TopicOutcome
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
    try:
        if not context.services.config.delete_topic_enable:
            raise BrokerError(
                ErrorCode.TOPIC_DELETION_DISABLED
                if context.version >= FIRST_VERSION_WITH_DISABLED
                else ErrorCode.INVALID_REQUEST
            )
        outcomes = await context.services.controller.delete_topics(topics)
    except BrokerError as error:
        outcomes = [TopicOutcome(name, topic_id, error) for name, topic_id in topics]
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
