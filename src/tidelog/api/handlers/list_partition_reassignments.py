"""ListPartitionReassignments: the partitions that are on their way to other brokers."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.controller.core.reassignments import list_reassignments
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(context: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    asked = (
        None
        if request.topics is None
        else [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    )
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for ongoing in list_reassignments(context.services.metadata.image, asked):
        topics.setdefault(ongoing.partition.topic, []).append(
            OngoingPartitionReassignment(
                partition_index=ongoing.partition.partition,
                replicas=list(ongoing.replicas),
                adding_replicas=list(ongoing.adding),
                removing_replicas=list(ongoing.removing),
            )
        )
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[OngoingTopicReassignment(name=name, partitions=found) for name, found in topics.items()],
    )
