"""DeleteRecords: moves the start of a log forward; -1 stands for the high watermark."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1


def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
            try:
                answer.low_watermark = _delete(context, topic.name, asked.partition_index, asked.offset)
            except BrokerError as error:
                answer.error_code = error.code
            answers.append(answer)
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    return DeleteRecordsResponse(topics=topics)


def _delete(context: RequestContext, topic: str, index: int, offset: int) -> int:
    """Returns the new start of the log, which is the low watermark while there is one replica."""
    partition = context.services.partitions.require(topic, index)
    if not partition.config.is_deleted_by_retention:
        raise BrokerError(ErrorCode.POLICY_VIOLATION, "records of a topic that is only compacted cannot be deleted")
    target = partition.high_watermark if offset == HIGH_WATERMARK else offset
    if not 0 <= target <= partition.high_watermark:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return context.services.partitions.delete_records(partition, target)
