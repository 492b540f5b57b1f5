"""Envelope: a request that another node sends on, in the name of the caller that asked there."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.api.forwarding import answer_envelope
from tidelog.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse


async def handle(context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    return await answer_envelope(context, request)
