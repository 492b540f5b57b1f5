"""BrokerHeartbeat: a node tells the active controller that it lives, and what it wants to be."""

from __future__ import annotations

from functools import partial

from tidelog.api.context import RequestContext
from tidelog.model.errors import BrokerError
from tidelog.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


async def handle(context: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    duties = context.services.controller.duties
    connection = context.caller.connection
    if connection is not None and connection.on_lost is None:
        # A process that dies closes its connections: the controller need not wait for the session to end.
        connection.on_lost = partial(duties.connection_lost, request.broker_id)
    try:
        reply = await duties.heartbeat(
            request.broker_id,
            request.broker_epoch,
            metadata_offset=request.current_metadata_offset,
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
        )
    except BrokerError as error:
        return BrokerHeartbeatResponse(error_code=error.code)
    return BrokerHeartbeatResponse(
        is_caught_up=reply.is_caught_up, is_fenced=reply.is_fenced, should_shut_down=reply.should_shut_down
    )
