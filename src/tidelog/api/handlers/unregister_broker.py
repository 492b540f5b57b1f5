"""UnregisterBroker: a node that will not come back is forgotten."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


async def handle(context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    try:
        await context.services.cluster.unregister(request.broker_id)
    except BrokerError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse(error_message=None)
