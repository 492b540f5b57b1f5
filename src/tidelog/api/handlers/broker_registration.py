"""BrokerRegistration: a node that starts makes itself known to the active controller."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.controller.core.brokers import Registration
from tidelog.metadata.image import Endpoint
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


async def handle(context: RequestContext, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    registration = Registration(
        node_id=request.broker_id,
        incarnation_id=bytes(request.incarnation_id),
        endpoints=tuple(Endpoint(each.name, each.host, each.port) for each in request.listeners),
        directories=tuple(bytes(directory) for directory in request.log_dirs),
        cluster_id=request.cluster_id,
        rack=request.rack,
        features=tuple(
            (each.name, each.min_supported_version, each.max_supported_version) for each in request.features
        ),
        previous_epoch=request.previous_broker_epoch,
    )
    try:
        epoch = await context.services.controller.duties.register(registration)
    except BrokerError as error:
        return BrokerRegistrationResponse(error_code=error.code)
    return BrokerRegistrationResponse(broker_epoch=epoch)
