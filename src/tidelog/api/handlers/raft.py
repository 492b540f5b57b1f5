"""Messages between the members of the metadata quorum; what they mean is the quorum's own business."""

from __future__ import annotations

import asyncio

from tidelog.api.context import RequestContext
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError
from tidelog.net.reply import PendingReply


def handle_frame(context: RequestContext, frame: Buffer, position: int) -> PendingReply:
    reply = PendingReply(overlaps=True)
    task = asyncio.ensure_future(context.services.controller.runner.quorum.receive(bytes(memoryview(frame)[position:])))

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
