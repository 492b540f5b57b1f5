"""Puts requests to the handlers of a node the way the Kafka listener does, without a connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from tidelog.api.context import Caller, Origin, RequestContext, Services
from tidelog.api.dispatcher import Dispatcher
from tidelog.protocol.index import response_class
from tidelog.protocol.message import Message
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.metrics import NodeMetrics

HOST = "10.0.0.1"
LISTENER = "PLAINTEXT"


def services_of(**parts: Any) -> Services:
    """A node with these parts only; where it says nothing else, it is the active controller and allows everything."""
    known = {
        "authorizer": None,
        "controller": SimpleNamespace(is_active=True),
        "metrics": NodeMetrics(),
        "tasks": BackgroundTasks(),
        "now_ms": lambda: 1_000,
    }
    return cast("Services", SimpleNamespace(**{**known, **parts}))


def caller_of(connection: object = None, origin: Origin = Origin.CLIENT) -> Caller:
    return Caller(origin, HOST, LISTENER, connection=cast(Any, connection))


def context_of(services: Services, api_key: int, version: int, caller: Caller | None = None) -> RequestContext:
    return RequestContext(Dispatcher(services), api_key, version, "client", caller or caller_of())


async def ask(services: Services, request: Message, version: int, caller: Caller | None = None) -> Any:
    """The response as a client of this version decodes it: both went through the wire format."""
    api_key = request.API_KEY
    assert api_key is not None
    context = context_of(services, api_key, version, caller)
    route = context.dispatcher.find_route(api_key)
    assert route is not None, "the API is served"
    typed = route.codec.decode_request(context, request.encode(version), 0)
    response = await context.dispatcher.complete(route, context, typed)
    body = route.codec.encode_response(context, response)
    encoded = body if isinstance(body, bytes) else b"".join(cast("list[bytes]", body))
    answer, end = response_class(api_key).decode(encoded, 0, version)
    assert end == len(encoded), "nothing is left behind the response"
    return answer
