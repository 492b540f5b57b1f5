"""Replies of requests that a coordinator has parked: complete when its answer is there, without a task for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tidelog.api.context import RequestContext
from tidelog.model.errors import BrokerError
from tidelog.net.reply import PendingReply
from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.api")

R = TypeVar("R")


def reply_when_done(
    context: RequestContext, later: asyncio.Future[R], encode: Callable[[R], bytes], refuse: Callable[[BrokerError], R]
) -> PendingReply:
    """`encode` makes the body of the response of an answer, `refuse` an answer of what came instead of one."""
    reply = PendingReply()

    def complete(done: asyncio.Future[R]) -> None:
        try:
            body = encode(_result(done, refuse))
        except (Exception, asyncio.CancelledError):
            # A fault of this node, not of the peer: everyone else is served on.
            logger.exception_limited(
                "request failed", limit_by=("api_key",), api_key=context.api_key, version=context.version
            )
            if context.connection is not None:
                context.connection.close("error", "internal error")
            return
        reply.complete([body])

    later.add_done_callback(complete)
    return reply


def _result(done: asyncio.Future[R], refuse: Callable[[BrokerError], R]) -> R:
    try:
        return done.result()
    except BrokerError as error:
        return refuse(error)
