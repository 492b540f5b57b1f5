"""CreateTopics: through the controller; answered when the topics are on disk and their partitions can be written."""

from __future__ import annotations

from tidelog.api.authorization import NONE_DENIED, authorize, denied
from tidelog.api.config_resources import describe_topic
from tidelog.api.context import RequestContext
from tidelog.controller.core.topics import NewTopic, TopicOutcome
from tidelog.model.access import CLUSTER, Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

FIRST_VERSION_WITH_DETAILS = 5


async def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    topics = [
        NewTopic(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
            [(config.name, config.value) for config in topic.configs],
        )
        for topic in request.topics
    ]
    refused = _refused(context, request)
    if refused:
        topics = [topic for topic in topics if topic.name not in refused]
    try:
        outcomes = await context.services.controller.create_topics(topics, validate_only=request.validate_only)
    except BrokerError as error:
        outcomes = [TopicOutcome(name, error=error) for name in dict.fromkeys(topic.name for topic in topics)]
    outcomes += (
        TopicOutcome(name, error=BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)) for name in sorted(refused)
    )
    hidden = denied(
        context,
        Operation.DESCRIBE_CONFIGS,
        ResourceType.TOPIC,
        (outcome.name for outcome in outcomes if outcome.name is not None and outcome.error is None),
    )
    return CreateTopicsResponse(topics=[_result(context, outcome, outcome.name in hidden) for outcome in outcomes])


def _refused(context: RequestContext, request: CreateTopicsRequest) -> frozenset[str]:
    """Names of topics that the caller may not create, neither them nor any."""
    if context.services.authorizer is None or authorize(context, Operation.CREATE, CLUSTER):
        return NONE_DENIED
    return denied(context, Operation.CREATE, ResourceType.TOPIC, (topic.name for topic in request.topics))


def _result(context: RequestContext, outcome: TopicOutcome, hides_configs: bool) -> CreatableTopicResult:
    name = outcome.name or ""
    if outcome.error is not None:
        return CreatableTopicResult(
            name=name, error_code=outcome.error.code, error_message=outcome.error.message, configs=[]
        )
    if hides_configs:
        # The response says that the topic is there, and nothing of its settings.
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return CreatableTopicResult(
            name=name, topic_id=outcome.topic_id, error_message=None, topic_config_error_code=code, configs=[]
        )
    configs: list[CreatableTopicConfigs] = []
    if context.version >= FIRST_VERSION_WITH_DETAILS:
        services = context.services
        configs = [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in describe_topic(services.metadata.image, services.config, outcome.configs)
        ]
    return CreatableTopicResult(
        name=name,
        topic_id=outcome.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=outcome.partition_count,
        replication_factor=outcome.replication_factor,
        configs=configs,
    )
