"""DescribeProducers: the producers a partition remembers, with their last sequence and open transaction."""

from __future__ import annotations

from tidelog.api.authorization import denied
from tidelog.api.context import RequestContext
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    topics = []
    answered: set[tuple[str, int]] = set()
    refused = denied(context, Operation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics))
    for topic in request.topics:
        answers = []
        for index in topic.partition_indexes:
            # Four bytes ask for all producers of a partition: a partition that is named again is not described again.
            if (topic.name, index) in answered:
                continue
            answered.add((topic.name, index))
            answer = PartitionResponse(partition_index=index)
            try:
                if topic.name in refused:
                    raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                partition = context.services.partitions.require(topic.name, index)
            except BrokerError as error:
                answer.error_code = error.code
                answer.error_message = error.message
            else:
                answer.active_producers = [
                    ProducerState(
                        producer_id=entry.producer_id,
                        producer_epoch=entry.epoch,
                        last_sequence=entry.last_sequence,
                        last_timestamp=entry.last_timestamp,
                        coordinator_epoch=entry.coordinator_epoch,
                        current_txn_start_offset=-1 if entry.txn_first_offset is None else entry.txn_first_offset,
                    )
                    for entry in partition.log.producer_state
                ]
            answers.append(answer)
        topics.append(TopicResponse(name=topic.name, partitions=answers))
    return DescribeProducersResponse(topics=topics)
