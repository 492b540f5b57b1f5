"""Requests that only the active controller can answer, on nodes that are not it.

The frame goes on unchanged in Kafka's Envelope, so that versions and fields of clients are nobody's business in
between. What comes back opens with the controller's metadata offset: the client gets its answer when this node has
caught up with it, and finds what it has done wherever it asked for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, Any, cast

from tidelog.api.context import RequestContext, Services
from tidelog.api.table import BY_KEY
from tidelog.controller.channel import FORWARD
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.headers import decode_request_header
from tidelog.protocol.index import request_class
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.net.client.pipelined import RpcClient
    from tidelog.protocol.message import Message

logger = get_logger("tidelog.api")

_OFFSET = Struct(">q")
FORWARD_SECONDS_MAX = 8.0
CATCH_UP_SECONDS_MAX = 2.0


async def forward_or_handle(context: RequestContext, frame: bytes, handle: Any, request: Any) -> Any:
    """The controller's answer as bytes. Where there is none, what the handler answers here: NOT_CONTROLLER, in the form
    that its API has for it."""
    try:
        return await _forward(context, frame)
    except BrokerError as error:
        logger.warning_limited(
            "request could not be forwarded", limit_by=("api_key",), api_key=context.api_key, reason=error.message
        )
    response = handle(context, request)
    return await response if asyncio.iscoroutine(response) else response


async def _forward(context: RequestContext, frame: bytes) -> bytes:
    services = context.services
    envelope = EnvelopeRequest(
        request_data=frame, request_principal=None, client_host_address=context.peer_host.encode()
    )

    async def here() -> EnvelopeResponse:
        return await answer_envelope(services, envelope)

    async def there(client: RpcClient, left_s: float) -> EnvelopeResponse:
        return await client.call(envelope, EnvelopeResponse, timeout_s=left_s)

    answered = await services.channel.reach(
        here,
        there,
        is_refused=lambda response: response.error_code == ErrorCode.NOT_CONTROLLER,
        timeout_s=FORWARD_SECONDS_MAX,
        purpose=FORWARD,
    )
    data = answered.response_data
    if answered.error_code or data is None or len(data) < _OFFSET.size:
        raise BrokerError(ErrorCode(answered.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
            await services.controller.runner.published(_OFFSET.unpack_from(data)[0] + 1)
    return bytes(data[_OFFSET.size :])


async def answer_envelope(services: Services, envelope: EnvelopeRequest) -> EnvelopeResponse:
    """What the active controller makes of a request that another node sends on."""
    if not services.controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    frame = bytes(envelope.request_data)
    header = decode_request_header(frame)
    api = BY_KEY.get(header.api_key)
    if api is None or not api.forwarded or not api.min_version <= header.api_version <= api.max_version:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    request, _ = request_class(api.key).decode(frame, header.body_position, header.api_version)
    host = bytes(envelope.client_host_address).decode("utf-8", "replace")
    response = await answer_here(services, request, header.api_version, client_id=header.client_id, peer_host=host)
    body = response.encode(header.api_version)
    return EnvelopeResponse(response_data=_OFFSET.pack(services.metadata.image.offset) + body)


async def answer_here(
    services: Services, request: Message, version: int, *, client_id: str | None = None, peer_host: str = ""
) -> Message:
    """Puts a request to the handler of this node, without a connection."""
    assert request.API_KEY is not None, "only requests are answered"
    api = BY_KEY[request.API_KEY]
    context = RequestContext(
        services, api.key, version, 0, client_id, peer_host, services.config.inter_node_listener_name, None
    )
    response = import_module(f"tidelog.api.handlers.{api.handler}").handle(context, request)
    if asyncio.iscoroutine(response):
        response = await response
    if response is None:
        raise MalformedMessage(f"{api.handler} gave no answer")
    return cast("Message", response)
