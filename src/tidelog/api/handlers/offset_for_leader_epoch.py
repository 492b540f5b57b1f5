"""OffsetForLeaderEpoch: where an epoch ended, so that a consumer can tell whether its log was truncated."""

from __future__ import annotations

from tidelog.api.authorization import NONE_DENIED, authorize, denied
from tidelog.api.context import RequestContext
from tidelog.model.access import CLUSTER, Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def handle(context: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    topics = []
    refused = _refused(context, request)
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            answer = EpochEndOffset(partition=asked.partition)
            try:
                if topic.topic in refused:
                    raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                partition = context.services.partitions.require(topic.topic, asked.partition)
                partition.check_leader_epoch(asked.current_leader_epoch)
                found = partition.log.reader.end_offset_for_epoch(asked.leader_epoch)
                if found is not None:
                    answer.leader_epoch, answer.end_offset = found
            except BrokerError as error:
                answer.error_code = error.code
            answers.append(answer)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)


def _refused(context: RequestContext, request: OffsetForLeaderEpochRequest) -> frozenset[str]:
    """Topics that the caller may not describe. Nodes ask for all that they replicate."""
    if context.services.authorizer is None or authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
        return NONE_DENIED
    return denied(context, Operation.DESCRIBE, ResourceType.TOPIC, (topic.topic for topic in request.topics))
