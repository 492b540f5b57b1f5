"""TxnOffsetCommit: offsets of a group that count when the producer's transaction commits.

Up to version 4 AddOffsetsToTxn came before and is checked; from version 5 on (transaction version 2) this request
adds the group's offsets partition to the transaction itself.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence

from tidelog.api.authorization import denied, require
from tidelog.api.context import RequestContext
from tidelog.coordination.partitioning import OFFSETS_TOPIC
from tidelog.groups.core.messages import Commit, OffsetToCommit, TransactionalCommit
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.transactions.core.messages import AddPartitions

FIRST_VERSION_WITH_LOAD_IN_PROGRESS = 2
FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS = 5


async def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    require(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    refused = denied(context, Operation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics))
    topics = context.services.metadata.image.topics
    offsets = [
        OffsetToCommit(
            asked.name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata,
            topics[asked.name].topic_id,
        )
        for asked in request.topics
        if asked.name in topics and asked.name not in refused
        for partition in asked.partitions
        if partition.partition_index in topics[asked.name].partitions
    ]
    try:
        codes: Sequence[ErrorCode] = await _commit(context, request, offsets) if offsets else ()
    except BrokerError as error:
        codes = [_translate(error.code, context.version)] * len(offsets)
    by_partition = {(offset.topic, offset.partition): code for offset, code in zip(offsets, codes, strict=True)}
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=asked.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=by_partition.get(
                            (asked.name, partition.partition_index),
                            ErrorCode.TOPIC_AUTHORIZATION_FAILED
                            if asked.name in refused
                            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        ),
                    )
                    for partition in asked.partitions
                ],
            )
            for asked in request.topics
        ]
    )


async def _commit(
    context: RequestContext, request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit]
) -> Sequence[ErrorCode]:
    if not request.group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
    services = context.services
    target = TopicPartition(OFFSETS_TOPIC, await services.groups.partition_of(request.group_id))
    adds = context.version >= FIRST_VERSION_THAT_ADDS
    if adds or services.transactions.settings.verifies_partitions:
        asked = AddPartitions(
            request.transactional_id, request.producer_id, request.producer_epoch, frozenset({target})
        )
        answer = services.transactional_writes.check(asked, adds=adds)
        if isinstance(answer, Coroutine):
            answer = await answer
        if answer[target] is not ErrorCode.NONE:
            raise BrokerError(answer[target])
    commit = Commit(request.group_id, request.member_id, request.group_instance_id, request.generation_id, offsets)
    codes, committed = services.groups.commit_transactional(
        TransactionalCommit(request.producer_id, request.producer_epoch, commit)
    )
    if committed is not None:
        await committed
    return codes


def _translate(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < FIRST_VERSION_WITH_LOAD_IN_PROGRESS:
        # Producers of old took this one for fatal.
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
