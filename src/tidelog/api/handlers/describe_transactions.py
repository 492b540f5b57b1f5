"""DescribeTransactions: what the coordinator knows of transactional ids."""

from __future__ import annotations

from tidelog.api.authorization import denied, require
from tidelog.api.context import RequestContext
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from tidelog.runtime.pauses import with_pauses


async def handle(context: RequestContext, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    ids = with_pauses(dict.fromkeys(request.transactional_ids))
    return DescribeTransactionsResponse(transaction_states=[await _describe(context, name) async for name in ids])


async def _describe(context: RequestContext, transactional_id: str) -> TransactionState:
    answer = TransactionState(transactional_id=transactional_id)
    try:
        require(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        if not transactional_id:
            raise BrokerError(ErrorCode.INVALID_REQUEST)
        metadata = await context.services.transactions.describe(transactional_id)
    except BrokerError as error:
        answer.error_code = error.code
        return answer
    if metadata is None:
        answer.error_code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return answer
    hidden = denied(context, Operation.DESCRIBE, ResourceType.TOPIC, (topic for topic, _ in metadata.partitions))
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(metadata.partitions):
        if topic not in hidden:
            by_topic.setdefault(topic, []).append(index)
    answer.transaction_state = metadata.state.value
    answer.transaction_timeout_ms = metadata.timeout_ms
    answer.transaction_start_time_ms = metadata.start_timestamp_ms
    answer.producer_id = metadata.producer_id
    answer.producer_epoch = metadata.producer_epoch
    answer.topics = [TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]
    return answer
