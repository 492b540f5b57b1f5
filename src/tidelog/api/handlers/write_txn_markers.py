"""WriteTxnMarkers: a coordinator, or an operator who aborts by hand, ends transactions in partitions of this node."""

from __future__ import annotations

import asyncio

from tidelog.api.context import RequestContext
from tidelog.coordination.log import Marker
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

COMMIT_SECONDS_MAX = 8.0
"""How long an answer waits for markers to be committed: less than a coordinator waits for the answer."""

Waiting = list[tuple[WritableTxnMarkerPartitionResult, asyncio.Future[None]]]


async def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    # All are written before one is waited for: a partition that is short of replicas holds up no other transaction.
    waiting: Waiting = []
    results = []
    for asked in request.markers:
        marker = Marker(
            asked.producer_id,
            asked.producer_epoch,
            asked.transaction_result,
            asked.coordinator_epoch,
            asked.transaction_version,
        )
        topics = [
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    _write(context, marker, TopicPartition(topic.name, index), waiting)
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ]
        results.append(WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics))
    if waiting:
        await _await_commits(waiting)
    return WriteTxnMarkersResponse(markers=results)


def _write(
    context: RequestContext, marker: Marker, partition: TopicPartition, waiting: Waiting
) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(partition_index=partition.partition)
    try:
        commit = context.services.markers.write(marker, partition)
    except BrokerError as error:
        result.error_code = error.code
    else:
        if commit is not None:
            waiting.append((result, asyncio.ensure_future(commit)))
    return result


async def _await_commits(waiting: Waiting) -> None:
    await asyncio.wait([commit for _, commit in waiting], timeout=COMMIT_SECONDS_MAX)
    for result, commit in waiting:
        if not commit.done():
            commit.cancel()
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            continue
        try:
            commit.result()
        except BrokerError as error:
            result.error_code = error.code
