"""EndTxn: commits or aborts; from version 5 on (transaction version 2) the answer holds the producer's next epoch."""

from __future__ import annotations

from tidelog.api.authorization import require
from tidelog.api.context import RequestContext
from tidelog.api.fencing import fenced_code
from tidelog.model.access import Operation, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.transactions.core.messages import End, Ended

FIRST_VERSION_WITH_FENCED = 2
FIRST_VERSION_THAT_MOVES_EPOCH = 5


async def handle(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    require(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    if not request.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    moves_epoch = context.version >= FIRST_VERSION_THAT_MOVES_EPOCH
    end = End(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        moves_epoch=moves_epoch,
    )
    try:
        ended = await context.services.transactions.end(end)
    except BrokerError as error:
        ended = Ended(error.code)
    code = fenced_code(ended.error, context.version, FIRST_VERSION_WITH_FENCED)
    if not moves_epoch:
        return EndTxnResponse(error_code=code)
    return EndTxnResponse(error_code=code, producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)
