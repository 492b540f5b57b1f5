"""InitProducerId: a producer id and epoch; with a transactional id, the producers before it are shut out."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.api.fencing import fenced_code
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.protocol.generated.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.transactions.core.messages import Init, Initialised

FIRST_VERSION_WITH_FENCED = 4


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    try:
        initialised = await _initialise(context, request)
    except BrokerError as error:
        initialised = Initialised(error.code)
    return InitProducerIdResponse(
        error_code=fenced_code(initialised.error, context.version, FIRST_VERSION_WITH_FENCED),
        producer_id=initialised.producer_id,
        producer_epoch=initialised.producer_epoch,
    )


async def _initialise(context: RequestContext, request: InitProducerIdRequest) -> Initialised:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return Initialised(ErrorCode.INVALID_REQUEST)
    transactional_id = request.transactional_id
    if transactional_id is None:
        return Initialised(ErrorCode.NONE, await context.services.producer_ids.next_id(), 0)
    if not transactional_id:
        return Initialised(ErrorCode.INVALID_REQUEST)
    return await context.services.transactions.init(
        Init(transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch)
    )
