"""Envelope: a request of a client that another node sends on to the active controller."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.api.forwarding import answer_envelope
from tidelog.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse


async def handle(context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    return await answer_envelope(context.services, request)
