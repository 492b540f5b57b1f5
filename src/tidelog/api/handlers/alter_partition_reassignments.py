"""AlterPartitionReassignments: partitions are given to other brokers, or stay after all."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.controller.core.reassignments import Reassignment
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    wanted = [
        Reassignment(TopicPartition(topic.name, partition.partition_index), partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    allowed = request.allow_replication_factor_change or context.version < 1
    try:
        outcomes = await context.services.controller.reassign(wanted, allow_factor_change=allowed)
    except BrokerError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    topics: dict[str, list[ReassignablePartitionResponse]] = {}
    for outcome in outcomes:
        topics.setdefault(outcome.partition.topic, []).append(
            ReassignablePartitionResponse(
                partition_index=outcome.partition.partition,
                error_code=ErrorCode.NONE if outcome.error is None else outcome.error.code,
                error_message=None if outcome.error is None else outcome.error.message,
            )
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allowed,
        error_message=None,
        responses=[ReassignableTopicResponse(name=name, partitions=found) for name, found in topics.items()],
    )
