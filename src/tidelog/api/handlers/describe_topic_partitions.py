"""DescribeTopicPartitions: topics by name, page by page; a cursor says where the next page begins."""

from __future__ import annotations

from tidelog.api.authorization import denied
from tidelog.api.authorized_operations import topic_operations
from tidelog.api.context import RequestContext
from tidelog.controller.core.names import check_topic_name
from tidelog.metadata.image import NO_LEADER, MetadataImage, TopicImage
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(context: RequestContext, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    image = context.services.metadata.image
    cursor = request.cursor
    asked = {topic.name for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        # The response has no field for an error of the whole request, so each topic carries it.
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
                for name in sorted(asked)
            ]
        )
    names = asked or set(image.topics)
    if cursor is not None:
        names = {name for name in names if name >= cursor.topic_name}
    hidden = denied(context, Operation.DESCRIBE, ResourceType.TOPIC, names)
    room = min(max(request.response_partition_limit, 1), context.services.config.max_request_partition_size_limit)
    topics = []
    next_cursor = None
    for name in sorted(names):
        if name in hidden:
            if asked:
                # Whether there is such a topic is not said.
                refused = DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name
                )
                topics.append(refused)
            continue
        if room == 0:
            next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            topics.append(_unknown(context, name))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(len(topic.partitions), start + room)
        topics.append(_describe(context, image, topic, range(start, end)))
        room -= max(end - start, 0)
        if end < len(topic.partitions):
            next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=end)
            break
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)


def _unknown(context: RequestContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except BrokerError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=topic_operations(context, name)
    )


def _describe(
    context: RequestContext, image: MetadataImage, topic: TopicImage, indexes: range
) -> DescribeTopicPartitionsResponseTopic:
    live = {broker.node_id for broker in image.live_brokers()}
    partitions = []
    for index in indexes:
        state = topic.partitions[index]
        leader = state.leader if state.leader in live else NO_LEADER
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.NONE if leader != NO_LEADER else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[node_id for node_id in state.replicas if node_id not in live],
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=topic_operations(context, topic.name),
    )
