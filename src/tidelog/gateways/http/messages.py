"""Requests and responses of the HTTP door, free of sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from tidelog.model import limits

if TYPE_CHECKING:
    from tidelog.gateways.http.routes import Route

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
TEXT: Final = "text/plain; charset=utf-8"


class HttpError(Exception):
    """A request that is answered with an error status; the message is one line that says what to do."""

    def __init__(
        self, status: int, message: str, *, kafka_error: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status: Final = status
        self.message: Final = message
        self.kafka_error: Final = kafka_error
        self.headers: Final = headers or {}


class Body:
    """What comes behind the head of a request, in the parts in which it arrived."""

    __slots__ = ("_arrived", "_fault", "_is_complete", "_parts", "_taken", "size", "taken_bytes")

    def __init__(self, taken: Callable[[int], None]) -> None:
        """`taken` is called with the bytes that a reader has taken: there is room for more."""
        self._taken = taken
        self._parts: list[bytes] = []
        self._arrived: asyncio.Event | None = None
        self._fault: Exception | None = None
        self._is_complete = False
        self.size = 0
        """Of all that has arrived."""
        self.taken_bytes = 0
        """How much of it was read by `parts`."""

    @property
    def held_bytes(self) -> int:
        return self.size - self.taken_bytes

    def feed(self, part: bytes) -> None:
        self.size += len(part)
        self._parts.append(part)
        self._wake()

    def complete(self) -> None:
        self._is_complete = True
        self._wake()

    def fail(self, fault: Exception) -> None:
        """The rest will not come."""
        self._fault = fault
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None:
            self._arrived.set()

    def whole(self) -> bytes:
        """For a handler that is called when the whole body is there."""
        assert self._is_complete, "the body is read before it has arrived"
        parts = self._parts
        if len(parts) == 1:
            return parts[0]
        joined = b"".join(parts)
        self._parts = [joined]
        return joined

    async def parts(self) -> AsyncIterator[bytes]:
        """Each part once, as it arrives. Raises HttpError where the client does not send the rest."""
        while True:
            while self._parts:
                part = self._parts.pop(0)
                self.taken_bytes += len(part)
                self._taken(len(part))
                yield part
            if self._fault is not None:
                raise self._fault
            if self._is_complete:
                return
            self._arrived = asyncio.Event()
            await self._arrived.wait()


class Request:
    __slots__ = (
        "_query",
        "body",
        "fault",
        "headers",
        "is_kept_alive",
        "method",
        "path",
        "path_values",
        "query_string",
        "route",
        "version",
    )

    def __init__(
        self, method: str, path: str, query_string: str, headers: dict[str, str], body: Body, version: str = "1.1"
    ) -> None:
        self.method = method
        self.path = path
        self.query_string = query_string
        self.headers = headers
        """By name in lower case; what came several times is joined by commas."""
        self.body = body
        self.version = version
        self.is_kept_alive = True
        """Whether another request may follow on the connection."""
        self.fault: HttpError | None = None
        """Why no handler is asked."""
        self.route: Route | None = None
        self.path_values: tuple[str, ...] = ()
        """What stands in the path where the route has names."""
        self._query: dict[str, str] | None = None

    def take_route(self, route: Route, path_values: tuple[str, ...]) -> None:
        self.route = route
        self.path_values = path_values

    @property
    def route_name(self) -> str:
        """For the log: not what the client has chosen."""
        return "" if self.route is None else self.route.name

    def fail(self, fault: HttpError) -> None:
        """No handler is asked; the first fault is what the client is told."""
        if self.fault is None:
            self.fault = fault

    def be_last(self) -> None:
        """The connection ends with the answer to this request."""
        self.is_kept_alive = False

    @property
    def query(self) -> dict[str, str]:
        """Of a parameter that came several times, the last."""
        if self._query is None:
            try:
                pairs = parse_qsl(
                    self.query_string,
                    keep_blank_values=True,
                    errors="strict",
                    max_num_fields=limits.HTTP_QUERY_PARAMETERS_MAX,
                )
            except ValueError as error:
                raise HttpError(400, f"The query cannot be read: {error}.") from None
            self._query = dict(pairs)
        return self._query

    def must_continue(self) -> bool:
        """Whether the client waits to be told that its body is wanted."""
        return "expect" in self.headers and self.version == "1.1" and self.body.size == 0 and self.fault is None

    @property
    def bytes_max(self) -> int:
        """How large the body may be."""
        rule = None if self.route is None else self.route.body
        return limits.HTTP_UNWANTED_BODY_BYTES_MAX if rule is None else rule.bytes_max

    @property
    def is_streamed(self) -> bool:
        """Whether the handler reads the body as it comes."""
        return self.route is not None and self.route.body is not None and self.route.body.is_streamed

    @property
    def media_type(self) -> str:
        """Of the body, without its parameters; empty where none is given."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def json(self) -> Any:
        """The body as JSON; HttpError where it is none."""
        try:
            return json.loads(self.body.whole())
        except (ValueError, RecursionError) as error:
            raise HttpError(400, f"The body is not JSON: {error}") from None


class Response:
    """A response whose body is there."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        body: bytes = b"",
        *,
        status: int = 200,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers


class Stream:
    """A response whose body comes part by part; the next part is asked for when the client has taken the last ones."""

    __slots__ = ("content_type", "headers", "parts", "status")

    def __init__(
        self,
        parts: AsyncIterator[bytes],
        *,
        content_type: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = status
        self.parts = parts
        self.content_type = content_type
        self.headers = headers


Answer = Response | Stream


def json_response(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode_json(value), status=status, headers=headers)


def encode_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
