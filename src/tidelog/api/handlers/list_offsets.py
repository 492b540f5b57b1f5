"""ListOffsets: earliest, latest, by time, the largest timestamp, and the tiers a node without tiers still answers."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.partitions.partition import Partition
from tidelog.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
READ_COMMITTED = 1
NOT_FOUND = (-1, -1, -1)
LEADER_EPOCHS_FROM_VERSION = 4
OFFSET_NOT_AVAILABLE_FROM_VERSION = 5

FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            try:
                timestamp, offset, epoch = _find(context, topic.name, asked, request)
                answers.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index,
                        timestamp=timestamp,
                        offset=offset,
                        leader_epoch=epoch if context.version >= LEADER_EPOCHS_FROM_VERSION else -1,
                    )
                )
            except BrokerError as error:
                answers.append(
                    ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error.code)
                )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _find(
    context: RequestContext, topic: str, asked: ListOffsetsPartition, request: ListOffsetsRequest
) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch of what was asked for; NOT_FOUND when no record is that late."""
    partition = context.services.partitions.require(topic, asked.partition_index)
    partition.check_leader_epoch(asked.current_leader_epoch)
    log = partition.log
    if asked.timestamp < 0:
        if context.version < FIRST_VERSION_OF.get(asked.timestamp, 0) or asked.timestamp < EARLIEST_PENDING_UPLOAD:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION)
        if asked.timestamp == LATEST:
            _check_high_watermark(context, partition, request)
            return -1, _upper_offset(partition, request), partition.leader_epoch
        if asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
            return -1, log.log_start_offset, log.leader_epochs.epoch_for_offset(log.log_start_offset)
        if asked.timestamp != MAX_TIMESTAMP:
            return NOT_FOUND
        found = log.max_timestamp_offset()
    else:
        found = log.offset_for_timestamp(asked.timestamp)
    if found is None or found[1] >= _upper_offset(partition, request):
        _check_high_watermark(context, partition, request)
        return NOT_FOUND
    return found


def _upper_offset(partition: Partition, request: ListOffsetsRequest) -> int:
    """The end of what the asker may read."""
    if request.replica_id >= 0:
        return partition.log.log_end_offset
    return partition.last_stable_offset if request.isolation_level == READ_COMMITTED else partition.high_watermark


def _check_high_watermark(context: RequestContext, partition: Partition, request: ListOffsetsRequest) -> None:
    """A new leader that has not heard of all its followers yet knows less than the last one told: it says nothing
    rather than something older."""
    if request.replica_id < 0 and not partition.leader.knows_high_watermark:
        raise BrokerError(
            ErrorCode.OFFSET_NOT_AVAILABLE
            if context.version >= OFFSET_NOT_AVAILABLE_FROM_VERSION
            else ErrorCode.LEADER_NOT_AVAILABLE
        )
