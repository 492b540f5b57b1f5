"""The Kafka listener's way in: from a frame to its reply. Header, version, codec, dispatcher, and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from librt.strings import read_i16_be

from tidelog.api.context import Caller, Origin, RequestContext
from tidelog.api.dispatcher import Dispatcher
from tidelog.api.routes import Route
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError
from tidelog.net.connection import Connection
from tidelog.net.later import Later
from tidelog.net.reply import Buffers, CloseConnection, Reply
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.headers import decode_behind_version, encode_response_header
from tidelog.protocol.index import ApiKey, api_name, is_response_header_flexible
from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.api")

_unpack_key_version: Final = Struct(">hh").unpack_from
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)


class KafkaDoor:
    __slots__ = ("_dispatcher", "_routes")

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._routes = dispatcher.routes

    def dispatch(self, connection: Connection, frame: Buffer, start: int) -> Reply:
        """Answers one request. Raises CloseConnection for a frame that cannot be answered."""
        api_key: int
        version: int
        if isinstance(frame, bytes):
            api_key, version = read_i16_be(frame, start), read_i16_be(frame, start + 2)
        else:
            api_key, version = _unpack_key_version(frame, start)
        dispatcher = self._dispatcher
        route = self._routes.get(api_key) or dispatcher.find_route(api_key)
        if route is None:
            raise CloseConnection("malformed", f"unsupported API {api_name(api_key)}, version {version}")
        if not route.min_version <= version <= route.max_version:
            return _refuse_version(frame, start, api_key, version)
        if not dispatcher.is_open and not route.api.between_nodes:
            raise CloseConnection("starting", "the node has not started yet")
        if len(frame) - start > route.bytes_max:
            raise CloseConnection("oversized", f"{api_name(api_key)} with {len(frame) - start} bytes")
        try:
            correlation_id, client_id, position = decode_behind_version(
                frame, start + 4, version >= route.flexible_from
            )
            known = connection.caller
            caller = known if isinstance(known, Caller) else _introduce(connection)
            context = RequestContext(dispatcher, api_key, version, client_id, caller)
            request = route.codec.decode_request(context, frame, position)
            answer = dispatcher.answer(route, context, request)
            if isinstance(answer, Later):
                kept = None if route.codec.holds_frame else request
                answer.when_settled(self._reply_with(connection, route, context, kept, correlation_id))
                return answer
            if answer is None:
                return None
            return _encode(route, context, answer, correlation_id)
        except MalformedMessage as malformed:
            raise CloseConnection("malformed", f"api {api_key} version {version}: {malformed}") from malformed
        except BrokerError as refused:
            raise _unsayable(api_key, refused) from None
        except CloseConnection:
            raise
        except Exception as fault:
            # A fault of this node, not of the peer: only this connection pays for it.
            _report(api_key, version)
            raise CloseConnection("error", repr(fault)) from fault

    def _reply_with(
        self, connection: Connection, route: Route, context: RequestContext, request: Any, correlation_id: int
    ) -> Callable[[Later[Any]], None]:
        """What completes the reply when the answer is there; whatever goes wrong closes the connection."""

        def reply(later: Later[Any]) -> None:
            parts: Buffers | None = None
            try:
                response = self._dispatcher.settle(route, context, request, later)
                if response is not None:
                    encoded = _encode(route, context, response, correlation_id)
                    parts = [encoded] if isinstance(encoded, bytes) else encoded
            except CloseConnection as close:
                connection.close(close.reason, close.detail)
                return
            except BrokerError as refused:
                unsayable = _unsayable(context.api_key, refused)
                connection.close(unsayable.reason, unsayable.detail)
                return
            except asyncio.CancelledError:
                connection.close("shutdown")
                return
            except Exception:
                # Of this node, not of the peer: all others are served on.
                _report(context.api_key, context.version)
                connection.close("error", "internal error")
                return
            later.complete(parts)

        return reply


def _introduce(connection: Connection) -> Caller:
    """The caller of all requests of this connection."""
    caller = Caller(Origin.CLIENT, connection.peer_host, connection.listener_name, connection=connection)
    connection.caller = caller
    return caller


def _encode(route: Route, context: RequestContext, response: Any, correlation_id: int) -> bytes | Buffers:
    body = route.codec.encode_response(context, response)
    header = encode_response_header(correlation_id, is_response_header_flexible(context.api_key, context.version))
    if isinstance(body, bytes):
        return header + body
    body.insert(0, header)
    return body


def _refuse_version(frame: Buffer, start: int, api_key: int, version: int) -> Buffers:
    """Kafka answers an unknown ApiVersions version in version 0, so that clients can step down; it closes the
    connection for every other API, since no response format is known to both sides."""
    if api_key != _API_VERSIONS:
        raise CloseConnection("malformed", f"unsupported API {api_name(api_key)}, version {version}")
    from tidelog.api.handlers.api_versions import unsupported_version_response

    correlation_id = int.from_bytes(frame[start + 4 : start + 8], "big", signed=True)
    return [encode_response_header(correlation_id, False), unsupported_version_response().encode(0)]


def _unsayable(api_key: int, refused: BrokerError) -> CloseConnection:
    """Of a refusal for which the response of the API has no field."""
    return CloseConnection("refused", f"{api_name(api_key)}: {refused.message}")


def _report(api_key: int, version: int) -> None:
    logger.exception_limited("request failed", limit_by=("api_key",), api_key=api_key, version=version)
