"""Requests that one node sends on to another, in the name of the caller that asked here.

A typed request is encoded again and goes in Kafka's Envelope, with its caller and the time that is left. It meets the
same dispatcher there. The answer opens with that node's metadata offset: the caller gets it when this node has caught
up, and then finds what it has done wherever it asked for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.api.context import Caller, Origin, RequestContext
from tidelog.controller.channel import FORWARD
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.principal import ANONYMOUS, Principal
from tidelog.net.client.errors import RpcError
from tidelog.net.reply import Buffers, CloseConnection
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.headers import decode_request_header, encode_request_header
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.api.routes import Route
    from tidelog.net.client.pipelined import RpcClient

logger = get_logger("tidelog.api")

_OFFSET = Struct(">q")
FORWARD_SECONDS_MAX = 8.0
CATCH_UP_SECONDS_MAX = 2.0


# -- sending on --------------------------------------------------------------------------------------------------------


async def forward_to_controller(context: RequestContext, request: Any, handle: Callable[..., Any]) -> Any:
    """The active controller's response. Where there is none, what the handler answers here: NOT_CONTROLLER, in the form
    that its API has for it."""
    services = context.services
    route = _route_of(context)

    async def here() -> Any:
        # It leads the quorum and may not have applied all of the log yet: then it would be sent on again.
        if not services.controller.is_active:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        return await context.dispatcher.complete(route, context, request)

    async def there(client: RpcClient, left_s: float) -> Any:
        return await _send(context, route, request, client, left_s, is_for_controller=True)

    try:
        return await services.channel.reach(here, there, timeout_s=_seconds_left(context), purpose=FORWARD)
    except BrokerError as error:
        logger.warning_limited(
            "request could not be forwarded", limit_by=("api_key",), api_key=context.api_key, reason=error.message
        )
    response = handle(context, request)
    return await response if inspect.isawaitable(response) else response


async def forward(context: RequestContext, request: Any, node_id: int) -> Any:
    """The response of another node. BrokerError when it gives none; it may have carried the request out then."""
    client = context.services.channel.pool.client(node_id, FORWARD)
    try:
        return await _send(
            context, _route_of(context), request, client, _seconds_left(context), is_for_controller=False
        )
    except RpcError as error:
        raise BrokerError(ErrorCode.REQUEST_TIMED_OUT, f"Node {node_id} did not answer: {error}") from None


def _route_of(context: RequestContext) -> Route:
    route = context.dispatcher.find_route(context.api_key)
    assert route is not None, "a request that is handled has a route"
    return route


def _seconds_left(context: RequestContext) -> float:
    if context.deadline_s is None:
        return FORWARD_SECONDS_MAX
    return max(0.001, min(FORWARD_SECONDS_MAX, context.deadline_s - asyncio.get_running_loop().time()))


async def _send(
    context: RequestContext, route: Route, request: Any, client: RpcClient, left_s: float, *, is_for_controller: bool
) -> Any:
    caller, codec = context.caller, route.codec
    header = encode_request_header(context.api_key, context.version, 0, context.client_id)
    envelope = EnvelopeRequest(
        request_data=header + codec.encode_request(context, request),
        request_principal=encode_sender(Sender(caller.principal, caller.listener_name, left_s, is_for_controller)),
        client_host_address=caller.peer_host.encode(),
    )
    answered = await client.call(envelope, EnvelopeResponse, timeout_s=left_s)
    data = answered.response_data
    if answered.error_code or data is None or len(data) < _OFFSET.size:
        raise BrokerError(ErrorCode(answered.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
            await context.services.controller.published(_OFFSET.unpack_from(data)[0] + 1)
    body = bytes(data[_OFFSET.size :])
    return codec.decode_response(context, body) if body else None


# -- answering what was sent on ----------------------------------------------------------------------------------------


async def answer_envelope(context: RequestContext, envelope: EnvelopeRequest) -> EnvelopeResponse:
    """`context` is that of the Envelope, whose caller is the node that sends the request on."""
    services, dispatcher = context.services, context.dispatcher
    principal = envelope.request_principal
    sender = FROM_OLDER_NODE if principal is None else decode_sender(bytes(principal))
    if sender.is_for_controller and not services.controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    frame = bytes(envelope.request_data)
    header = decode_request_header(frame)
    route = dispatcher.find_route(header.api_key)
    if (
        route is None
        or route.api.between_nodes
        or not route.min_version <= header.api_version <= route.max_version
        or len(frame) > route.bytes_max
    ):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    host = bytes(envelope.client_host_address).decode("utf-8", "replace")
    listener_name = sender.listener_name or services.config.inter_node_listener_name
    caller = Caller(Origin.NODE, host, listener_name, sender.principal)
    deadline_s = asyncio.get_running_loop().time() + sender.left_s
    inner = RequestContext(dispatcher, header.api_key, header.api_version, header.client_id, caller, deadline_s)
    request = route.codec.decode_request(inner, frame, header.body_position)
    try:
        response = await dispatcher.complete(route, inner, request)
    except CloseConnection as refused:
        # It concerns the connection of the caller, not that of the node between.
        logger.info("a forwarded request has no answer", api_key=header.api_key, reason=refused.reason)
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    offset = _OFFSET.pack(services.metadata.image.offset)
    if response is None:
        return EnvelopeResponse(response_data=offset)
    return EnvelopeResponse(response_data=offset + _joined(route.codec.encode_response(inner, response)))


def _joined(body: bytes | Buffers) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"".join(part if isinstance(part, (bytes, bytearray, memoryview)) else part.load() for part in body)


class Sender(NamedTuple):
    """What goes along with a request: its caller as the node knows it that sends it on."""

    principal: Principal
    listener_name: str
    left_s: float
    """How long the caller waits for the answer."""
    is_for_controller: bool
    """Only the active controller may answer."""


FROM_OLDER_NODE = Sender(ANONYMOUS, "", FORWARD_SECONDS_MAX, True)
"""Nodes of 0.1 send requests on without a caller, and only to the controller."""


def encode_sender(sender: Sender) -> bytes:
    return json.dumps(
        {
            "principal": [sender.principal.type, sender.principal.name],
            "listener": sender.listener_name,
            "left_s": round(sender.left_s, 3),
            "controller": sender.is_for_controller,
        },
        separators=(",", ":"),
    ).encode()


def decode_sender(data: bytes) -> Sender:
    """Raises MalformedMessage."""
    try:
        fields = json.loads(data)
        kind, name = fields["principal"]
        left_s = min(max(float(fields["left_s"]), 0.0), FORWARD_SECONDS_MAX)
        return Sender(
            Principal(str(kind), str(name)), str(fields["listener"]), left_s, fields["controller"] is not False
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MalformedMessage(f"the caller of a forwarded request: {error!r}") from None
