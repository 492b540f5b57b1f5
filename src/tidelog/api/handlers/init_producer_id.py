"""InitProducerId: a producer id and epoch; with a transactional id, the producers before it are shut out."""

from __future__ import annotations

from tidelog.api.authorization import authorize, require
from tidelog.api.context import RequestContext
from tidelog.api.fencing import fenced_code
from tidelog.model.access import CLUSTER, Operation, ResourceType
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
    _require_permission(context, request.transactional_id)
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


def _require_permission(context: RequestContext, transactional_id: str | None) -> None:
    """Without a transactional id it is enough that the producer may write to any topic, one to come included:
    idempotence is the default of producers, so it needs no permission of its own."""
    authorizer = context.services.authorizer
    if authorizer is None:
        return
    if transactional_id is not None:
        require(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    elif not authorize(context, Operation.IDEMPOTENT_WRITE, CLUSTER) and not authorizer.allows_any(
        context.caller, Operation.WRITE, ResourceType.TOPIC
    ):
        raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
