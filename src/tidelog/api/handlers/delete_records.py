"""DeleteRecords: moves the start of a log forward; -1 stands for the high watermark.

Answered when every replica that is alive has done so too, so that any of them may lead next.
"""

from __future__ import annotations

import asyncio

from tidelog.api.authorization import denied
from tidelog.api.context import RequestContext
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.partitions.low_watermark import wait_for_low_watermark
from tidelog.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tidelog.runtime.pauses import with_pauses

HIGH_WATERMARK = -1


async def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    timeout_s = max(0, request.timeout_ms) / 1000
    topics = []
    tasks = context.services.tasks
    refused = denied(context, Operation.DELETE, ResourceType.TOPIC, (topic.name for topic in request.topics))
    for topic in request.topics:
        answers = [
            tasks.start(
                _answer(context, topic.name, each, timeout_s, topic.name in refused),
                "deletion of records",
                is_awaited=True,
            )
            async for each in with_pauses(topic.partitions)
        ]
        topics.append((topic.name, asyncio.gather(*answers)))
    return DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(name=name, partitions=await answered) for name, answered in topics]
    )


async def _answer(
    context: RequestContext, topic: str, asked: DeleteRecordsPartition, timeout_s: float, is_denied: bool
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    try:
        if is_denied:
            raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = context.services.partitions.require(topic, asked.partition_index)
        if not partition.config.is_deleted_by_retention:
            raise BrokerError(ErrorCode.POLICY_VIOLATION, "records of a topic that is only compacted cannot be deleted")
        target = partition.leader.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
        if not 0 <= target <= partition.high_watermark:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
        context.services.partitions.delete_records(partition, target)
        answer.low_watermark = await wait_for_low_watermark(partition, target, timeout_s)
    except BrokerError as error:
        answer.error_code = error.code
    return answer
