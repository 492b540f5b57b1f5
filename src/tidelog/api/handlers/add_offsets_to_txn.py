"""AddOffsetsToTxn: the transaction is about to commit offsets of a group, so its offsets partition takes part."""

from __future__ import annotations

from tidelog.api.authorization import require
from tidelog.api.context import RequestContext
from tidelog.api.fencing import fenced_code
from tidelog.coordination.partitioning import OFFSETS_TOPIC
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.transactions.core.messages import AddPartitions

FIRST_VERSION_WITH_FENCED = 2


async def handle(context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    require(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    require(context, Operation.READ, ResourceType.GROUP, request.group_id)
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    services = context.services
    try:
        index = await services.groups.partition_of(request.group_id)
        asked = AddPartitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({TopicPartition(OFFSETS_TOPIC, index)}),
        )
        code = await services.transactions.add_partitions(asked)
    except BrokerError as error:
        code = error.code
    return AddOffsetsToTxnResponse(error_code=fenced_code(code, context.version, FIRST_VERSION_WITH_FENCED))
