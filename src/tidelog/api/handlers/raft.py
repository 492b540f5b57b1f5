"""Messages between the members of the metadata quorum; what they mean is the quorum's own business."""

from __future__ import annotations

from functools import partial

from tidelog.api.context import RequestContext
from tidelog.model.errors import BrokerError
from tidelog.net.later import Later, answer_from
from tidelog.net.reply import CloseConnection


def handle(context: RequestContext, request: bytes) -> Later[bytes]:
    quorum = context.services.controller.quorum
    connection = context.caller.connection
    if connection is not None and connection.on_lost is None:
        # A leader that dies closes its connections: its followers need not wait until they miss it.
        connection.on_lost = partial(quorum.connection_lost, quorum.sender_of(request))
    return answer_from(_receive(context, request), context.services.tasks, overlaps=True)


async def _receive(context: RequestContext, request: bytes) -> bytes:
    try:
        return await context.services.controller.quorum.receive(request)
    except BrokerError as error:
        raise CloseConnection("malformed", f"quorum message: {error}") from None
