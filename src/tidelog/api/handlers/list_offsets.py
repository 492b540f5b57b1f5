"""ListOffsets: earliest, latest, by time, the largest timestamp, and the tiers a node without tiers still answers."""

from __future__ import annotations

from tidelog.api.authorization import denied
from tidelog.api.context import RequestContext
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.limits import KEYS_BETWEEN_PAUSES
from tidelog.net.later import Later, answer_from
from tidelog.partitions.partition import Partition
from tidelog.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.runtime.pauses import with_pauses

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


def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse | Later[ListOffsetsResponse]:
    lookup = _Lookup(context, request)
    if len(lookup.asked) > KEYS_BETWEEN_PAUSES:
        # A time is looked up in files: many of them are not to keep others waiting.
        return answer_from(_answer_in_portions(lookup), context.services.tasks)
    return lookup.respond([lookup.answer(topic, asked) for topic, asked in lookup.asked])


async def _answer_in_portions(lookup: _Lookup) -> ListOffsetsResponse:
    return lookup.respond([lookup.answer(topic, asked) async for topic, asked in with_pauses(lookup.asked)])


class _Lookup:
    def __init__(self, context: RequestContext, request: ListOffsetsRequest) -> None:
        self._context = context
        self._request = request
        self.asked: list[tuple[str, ListOffsetsPartition]] = []
        """Topic and partition, each once."""
        self._repeated: set[tuple[str, int]] = set()
        names = (topic.name for topic in request.topics)
        self._denied = denied(context, Operation.DESCRIBE, ResourceType.TOPIC, names)
        named: set[tuple[str, int]] = set()
        for topic in request.topics:
            for asked in topic.partitions:
                partition = topic.name, asked.partition_index
                if partition in named:
                    self._repeated.add(partition)
                else:
                    named.add(partition)
                    self.asked.append((topic.name, asked))

    def answer(self, topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        try:
            if topic in self._denied:
                raise BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if (topic, asked.partition_index) in self._repeated:
                raise BrokerError(ErrorCode.INVALID_REQUEST)
            timestamp, offset, epoch = _find(self._context, topic, asked, self._request)
        except BrokerError as error:
            return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error.code)
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=epoch if self._context.version >= LEADER_EPOCHS_FROM_VERSION else -1,
        )

    def respond(self, answers: list[ListOffsetsPartitionResponse]) -> ListOffsetsResponse:
        """`answers` to what was `asked`, in its order."""
        topics: dict[str, list[ListOffsetsPartitionResponse]] = {}
        for (topic, _), answer in zip(self.asked, answers, strict=True):
            topics.setdefault(topic, []).append(answer)
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=name, partitions=found) for name, found in topics.items()]
        )


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
        found = log.reader.max_timestamp_offset()
    else:
        found = log.reader.offset_for_timestamp(asked.timestamp)
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
    """A new leader that has not heard from all its followers yet may have an older high watermark than the last
    leader has answered with: it refuses rather than answer with that."""
    if request.replica_id < 0 and not partition.leader.knows_high_watermark:
        raise BrokerError(
            ErrorCode.OFFSET_NOT_AVAILABLE
            if context.version >= OFFSET_NOT_AVAILABLE_FROM_VERSION
            else ErrorCode.LEADER_NOT_AVAILABLE
        )
