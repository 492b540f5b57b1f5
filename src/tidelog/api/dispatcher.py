"""From a frame to its reply: header, version check, handler, response header.

Handlers come in two shapes. Most take a decoded request and return a response, or its bytes (or a coroutine of either);
those that are asked all the time bring their own way to decode (`decode_request`). Those that move records, and those
that a coordinator may park, take the raw frame (`handle_frame`) and return the bytes of the response, its parts, or a
reply that is completed later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from struct import Struct
from time import perf_counter
from typing import Any, Final

from librt.strings import read_i16_be

from tidelog.api.context import RequestContext, Services
from tidelog.api.forwarding import forward_or_handle
from tidelog.api.table import BY_KEY, Api
from tidelog.codec.buffers import Buffer
from tidelog.net.connection import Connection
from tidelog.net.reply import Buffers, CloseConnection, PendingReply, Reply
from tidelog.protocol.errors import MalformedMessage
from tidelog.protocol.headers import decode_behind_version, encode_response_header
from tidelog.protocol.index import ApiKey, api_name, is_flexible, is_response_header_flexible, request_class
from tidelog.telemetry.logs import get_logger
from tidelog.telemetry.metrics import DurationHistogram, NodeMetrics

logger = get_logger("tidelog.api")

_unpack_key_version: Final = Struct(">hh").unpack_from
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)

FrameHandler = Callable[[RequestContext, Buffer, int], bytes | Buffers | PendingReply | None]
MessageHandler = Callable[[RequestContext, Any], Any]
RequestDecoder = Callable[[Buffer, int, int], Any]


class _Route:
    """One API, with its handler imported."""

    __slots__ = (
        "api",
        "bytes_max",
        "decode_request",
        "duration",
        "flexible_from",
        "handle",
        "handle_frame",
        "is_local",
        "max_version",
        "min_version",
    )

    def __init__(self, api: Api, metrics: NodeMetrics) -> None:
        module = import_module(f"tidelog.api.handlers.{api.handler}")
        self.api = api
        self.min_version = api.min_version
        self.max_version = api.max_version
        self.bytes_max = api.bytes_max
        flexible = (version for version in range(api.min_version, api.max_version + 1) if is_flexible(api.key, version))
        self.flexible_from = next(flexible, api.max_version + 1)
        self.handle_frame: FrameHandler | None = getattr(module, "handle_frame", None)
        self.handle: MessageHandler | None = getattr(module, "handle", None)
        assert (self.handle is None) != (self.handle_frame is None), f"{api.handler} has one way to be called"
        self.duration = metrics.api(api.key, api_name(api.key)).duration
        self.decode_request: RequestDecoder = getattr(module, "decode_request", None) or _generated_decoder(api.key)
        self.is_local: Callable[[Any], bool] = getattr(module, "is_local", _never)
        """Whether a request of a forwarded API concerns this node alone."""


def _never(request: Any) -> bool:
    return False


def _generated_decoder(api_key: int) -> RequestDecoder:
    """Of an API without a generated class, which takes frames, nothing is ever decoded by it."""

    def decode(frame: Buffer, position: int, version: int) -> Any:
        return request_class(api_key).decode(frame, position, version)[0]

    return decode


class Dispatcher:
    def __init__(self, services: Services, metrics: NodeMetrics) -> None:
        self._services = services
        self._metrics = metrics
        self._routes: dict[int, _Route] = {}
        self._is_open = False
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """From now on clients are answered, not only the other nodes."""
        self._is_open = True

    def dispatch(self, connection: Connection, frame: Buffer, start: int) -> Reply:
        """Answers one request. Raises CloseConnection for a frame that cannot be answered."""
        started_s = perf_counter()
        api_key: int
        version: int
        if isinstance(frame, bytes):
            api_key, version = read_i16_be(frame, start), read_i16_be(frame, start + 2)
        else:
            api_key, version = _unpack_key_version(frame, start)
        route = self._routes.get(api_key)
        if route is None:
            route = self._load_route(api_key, version)
        if not route.min_version <= version <= route.max_version:
            return self._refuse_version(frame, start, api_key, version)
        if not self._is_open and not route.api.between_nodes:
            raise CloseConnection("starting", "the node has not started yet")
        if len(frame) - start > route.bytes_max:
            raise CloseConnection("oversized", f"api key {api_key} with {len(frame) - start} bytes")
        try:
            correlation_id, client_id, position = decode_behind_version(
                frame, start + 4, version >= route.flexible_from
            )
            context = RequestContext(
                self._services,
                api_key,
                version,
                correlation_id,
                client_id,
                connection.peer_host,
                connection.listener_name,
                connection,
            )
            if route.handle_frame is not None:
                parts = route.handle_frame(context, frame, position)
                if isinstance(parts, PendingReply):
                    parts.prepare_with(self._finish_later(context, route.duration, started_s))
                    return parts
                route.duration.observe(perf_counter() - started_s)
                if isinstance(parts, bytes):
                    return _response_header(api_key, version, correlation_id) + parts
                if parts is not None:
                    parts.insert(0, _response_header(api_key, version, correlation_id))
                return parts
            request = route.decode_request(frame, position, version)
            assert route.handle is not None
            if route.api.forwarded and not self._services.controller.is_active and not route.is_local(request):
                response = forward_or_handle(context, bytes(frame[start:]), route.handle, request)
            else:
                response = route.handle(context, request)
            if not isinstance(response, bytes) and asyncio.iscoroutine(response):
                return self._answer_later(context, response, route, started_s)
            route.duration.observe(perf_counter() - started_s)
            return _encode(context, response)
        except MalformedMessage as malformed:
            raise CloseConnection("malformed", f"api {api_key} version {version}: {malformed}") from malformed
        except CloseConnection:
            raise
        except Exception as fault:
            # A fault of this node, not of the peer: only this connection pays for it.
            logger.exception_limited("request failed", limit_by=("api_key",), api_key=api_key, version=version)
            raise CloseConnection("error", repr(fault)) from fault

    def _load_route(self, api_key: int, version: int) -> _Route:
        api = BY_KEY.get(api_key)
        if api is None:
            raise CloseConnection("malformed", f"unknown api key {api_key} version {version}")
        route = self._routes[api_key] = _Route(api, self._metrics)
        return route

    def _refuse_version(self, frame: Buffer, start: int, api_key: int, version: int) -> Buffers:
        """Kafka answers an unknown ApiVersions version in version 0, so that clients can step down; it closes the
        connection for every other API, since no response format is known to both sides."""
        if api_key != _API_VERSIONS:
            raise CloseConnection("malformed", f"unsupported api key {api_key} version {version}")
        from tidelog.api.handlers.api_versions import unsupported_version_response

        correlation_id = int.from_bytes(frame[start + 4 : start + 8], "big", signed=True)
        return [encode_response_header(correlation_id, False), unsupported_version_response().encode(0)]

    # -- answers that take time ------------------------------------------------------------------------------------

    @staticmethod
    def _finish_later(
        context: RequestContext, duration: DurationHistogram, started_s: float
    ) -> Callable[[Buffers | None], Buffers | None]:
        def finish(parts: Buffers | None) -> Buffers | None:
            duration.observe(perf_counter() - started_s)
            if parts is not None:
                parts.insert(0, _response_header(context.api_key, context.version, context.correlation_id))
            return parts

        return finish

    def _answer_later(
        self, context: RequestContext, response: Awaitable[Any], route: _Route, started_s: float
    ) -> PendingReply:
        overlaps_from = route.api.overlaps_from
        reply = PendingReply(overlaps=overlaps_from is not None and context.version >= overlaps_from)
        task = asyncio.ensure_future(self._await_response(context, response, reply, route.duration, started_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return reply

    async def _await_response(
        self,
        context: RequestContext,
        response: Awaitable[Any],
        reply: PendingReply,
        duration: DurationHistogram,
        started_s: float,
    ) -> None:
        try:
            encoded = _encode(context, await response)
        except asyncio.CancelledError:
            _close(context, "shutdown")
            raise
        except Exception:
            # A fault of this node, not of the peer: everyone else is served on.
            logger.exception_limited(
                "request failed", limit_by=("api_key",), api_key=context.api_key, version=context.version
            )
            _close(context, "error")
            return
        duration.observe(perf_counter() - started_s)
        reply.complete(None if encoded is None else [encoded])

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _close(context: RequestContext, reason: str) -> None:
    if context.connection is not None:
        context.connection.close(reason, "internal error" if reason == "error" else "")


def _response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    return encode_response_header(correlation_id, is_response_header_flexible(api_key, version))


def _encode(context: RequestContext, response: Any) -> bytes | None:
    if response is None:
        return None
    body: bytes = response if isinstance(response, bytes) else response.encode(context.version)
    return _response_header(context.api_key, context.version, context.correlation_id) + body
