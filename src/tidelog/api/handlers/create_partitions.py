"""CreatePartitions: more partitions for topics that exist."""

from __future__ import annotations

from tidelog.api.authorization import denied
from tidelog.api.context import RequestContext
from tidelog.controller.core.topics import NewPartitions, TopicOutcome
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    wanted = [
        NewPartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments],
        )
        for topic in request.topics
    ]
    refused = denied(context, Operation.ALTER, ResourceType.TOPIC, (topic.name for topic in wanted))
    if refused:
        wanted = [topic for topic in wanted if topic.name not in refused]
    try:
        outcomes = await context.services.controller.create_partitions(wanted, validate_only=request.validate_only)
    except BrokerError as error:
        outcomes = [TopicOutcome(topic.name, error=error) for topic in wanted]
    outcomes += (
        TopicOutcome(name, error=BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) for name in sorted(refused)
    )
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=outcome.name or "",
                error_code=ErrorCode.NONE if outcome.error is None else outcome.error.code,
                error_message=None if outcome.error is None else outcome.error.message,
            )
            for outcome in outcomes
        ]
    )
