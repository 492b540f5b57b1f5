"""Messages between the members of the metadata quorum; what they mean is the quorum's own business."""

from __future__ import annotations

import asyncio
from functools import partial

from tidelog.api.context import RequestContext
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError
from tidelog.net.reply import PendingReply


def handle_frame(context: RequestContext, frame: Buffer, position: int) -> PendingReply:
    reply = PendingReply(overlaps=True)
    quorum = context.services.controller.runner.quorum
    body = bytes(memoryview(frame)[position:])
    if context.connection is not None and context.connection.on_lost is None:
        # A leader that dies closes its connections: its followers need not wait until they miss it.
        context.connection.on_lost = partial(quorum.connection_lost, quorum.sender_of(body))
    task = asyncio.ensure_future(quorum.receive(body))

    def answered(done: asyncio.Task[bytes]) -> None:
        if done.cancelled() or done.exception() is not None:
            error = None if done.cancelled() else done.exception()
            if context.connection is not None:
                is_malformed = isinstance(error, BrokerError)
                context.connection.close("malformed" if is_malformed else "error", f"quorum message: {error}")
            return
        reply.complete([done.result()])

    task.add_done_callback(answered)
    return reply
