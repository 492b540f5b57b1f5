"""AllocateProducerIds: a node gets the next block of producer ids, which no other node ever gets."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


async def handle(context: RequestContext, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
    try:
        block = await context.services.controller.next_producer_ids(request.broker_id, request.broker_epoch)
    except BrokerError as error:
        return AllocateProducerIdsResponse(error_code=error.code)
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)
