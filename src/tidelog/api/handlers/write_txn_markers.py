"""WriteTxnMarkers: a coordinator, or an operator who aborts by hand, ends transactions in partitions of this node."""

from __future__ import annotations

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


async def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
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
                    WritableTxnMarkerPartitionResult(
                        partition_index=index,
                        error_code=await _write(context, marker, TopicPartition(topic.name, index)),
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ]
        results.append(WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=results)


async def _write(context: RequestContext, marker: Marker, partition: TopicPartition) -> ErrorCode:
    try:
        commit = context.services.markers.write(marker, partition)
        if commit is not None:
            await commit
    except BrokerError as error:
        return error.code
    return ErrorCode.NONE
