"""A node asks to be taken into the cluster (private, JSON): any member answers, through the active controller."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError
from tidelog.net.json_body import decode_body, encode_body
from tidelog.net.reply import PendingReply


def handle_frame(context: RequestContext, frame: Buffer, position: int) -> PendingReply:
    body = decode_body(frame, position)
    reply = PendingReply()

    async def answer() -> None:
        try:
            answered = await context.services.cluster.take_in(body)
        except BrokerError as error:
            answered = {"error": error.message, "code": int(error.code)}
        reply.complete(encode_body(answered))

    context.services.cluster.run(answer())
    return reply
