"""From the bytes of a connection to its requests, in their order. No socket and no event loop.

llhttp (by httptools) parses, strictly: what two servers could read in two ways is refused, and so is whatever comes
behind it on the connection. Everything that a client can make large has a bound in `model/limits.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import httptools

from tidelog.gateways.http.messages import Body, HttpError, Request
from tidelog.model import limits

ONCE: Final = frozenset({"authorization", "content-length", "content-type", "host"})
"""Headers of which a second one would have to be ignored or believed: neither is safe."""


class Intake:
    __slots__ = (
        "_arrived",
        "_find_route",
        "_head_bytes",
        "_headers",
        "_parser",
        "_receiving",
        "_taken",
        "_target",
        "waiting",
    )

    def __init__(
        self, find_route: Callable[[Request], None], arrived: Callable[[int], None], taken: Callable[[int], None]
    ) -> None:
        """`find_route` is called when the head of a request is there; `arrived` and `taken` with bytes of bodies."""
        self._find_route = find_route
        self._arrived = arrived
        self._taken = taken
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: dict[str, str] | None = None
        """Of the request whose head is arriving; None between requests."""
        self._head_bytes = 0
        self._receiving: Request | None = None
        """The request whose body is arriving; the last of `waiting`."""
        self.waiting: deque[Request] = deque()
        """Requests that have no answer yet."""

    # -- what the connection asks --------------------------------------------------------------------------------------

    @property
    def ready(self) -> Request | None:
        """The first request, if it can be handled: it has arrived, or its handler reads the body as it comes."""
        if not self.waiting:
            return None
        first = self.waiting[0]
        return None if first is self._receiving and not first.is_streamed and first.fault is None else first

    @property
    def is_arriving(self) -> bool:
        """A request has begun, and its end has not come."""
        return self._headers is not None or self._receiving is not None

    @property
    def is_full(self) -> bool:
        """No more should be read before something is answered, or taken by the handler that reads it."""
        waiting = self.waiting
        if not waiting:
            return False
        last = waiting[-1]
        return (
            len(waiting) > limits.HTTP_PIPELINED_REQUESTS_MAX
            or not (last.is_kept_alive or last is self._receiving)
            or (last.is_streamed and last.body.held_bytes > limits.HTTP_STREAMED_BODY_BYTES_MAX)
        )

    # -- what the connection tells -------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Never raises for what the peer has sent: a fault is answered as the last request."""
        try:
            self._parser.feed_data(data)
            if self._headers is not None:
                self._count_head(len(data))
        except httptools.HttpParserUpgrade:
            # A server may go on in HTTP/1.1. What follows on this connection is not parsed: the request is the last.
            if self.waiting:
                self.waiting[-1].be_last()
        except httptools.HttpParserCallbackError as error:
            fault = error.__context__
            if not isinstance(fault, HttpError):
                raise
            self.refuse(fault)
        except httptools.HttpParserError as error:
            self.refuse(HttpError(400, f"This is not HTTP/1.1: {error}."))
        except HttpError as fault:
            self.refuse(fault)

    def end(self) -> None:
        """The client sends no more."""
        if self.is_arriving:
            self.refuse(HttpError(400, "The request ends before it is complete."))
        elif self.waiting:
            self.waiting[-1].be_last()

    def refuse(self, fault: HttpError) -> None:
        """What arrives is no request, or does not arrive: the answer that says so is the last of the connection."""
        request = self._receiving
        if request is None:
            request = Request("GET", "/", "", {}, Body(self._taken))
            self.waiting.append(request)
        self._receiving = self._headers = None
        request.body.fail(fault)
        request.fail(fault)
        request.be_last()

    def finish(self, request: Request) -> None:
        """The first request has its answer."""
        assert self.waiting[0] is request, "requests are answered in their order"
        self.waiting.popleft()
        if request is self._receiving:
            # Its handler did not want the rest, so nothing that follows can be read as a request.
            self._receiving = None
            request.be_last()

    # -- called by the parser ------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = {}
        self._head_bytes = 0

    def on_url(self, part: bytes) -> None:
        self._target += part
        if len(self._target) > limits.HTTP_TARGET_BYTES_MAX:
            raise HttpError(414, f"The path with its query has at most {limits.HTTP_TARGET_BYTES_MAX} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._headers
        if headers is None:
            # A trailer behind a chunked body: nothing here needs it.
            return
        if len(headers) >= limits.HTTP_HEADERS_MAX:
            raise HttpError(431, f"A request has at most {limits.HTTP_HEADERS_MAX} headers.")
        self._count_head(len(name) + len(value))
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        known = headers.get(key)
        if known is not None:
            if key in ONCE:
                raise HttpError(400, f"The header {key} comes more than once.")
            text = f"{known},{text}"
        headers[key] = text

    def on_headers_complete(self) -> None:
        headers = self._headers
        assert headers is not None
        self._headers = None
        version = self._parser.get_http_version()
        _check_head(version, headers)
        path, _, query = self._target.decode("latin-1").partition("?")
        method = self._parser.get_method().decode("latin-1")
        request = Request(method, path, query, headers, Body(self._taken), version)
        if version == "1.0" or not self._parser.should_keep_alive():
            request.be_last()
        self._receiving = request
        self.waiting.append(request)
        self._find_route(request)
        announced = headers.get("content-length")
        if announced is not None and not request.is_streamed and int(announced) > request.bytes_max:
            self._refuse_body(request)

    def on_body(self, part: bytes) -> None:
        request = self._receiving
        if request is None:
            return
        if not request.is_streamed and request.body.size + len(part) > request.bytes_max:
            self._refuse_body(request)
            return
        self._arrived(len(part))
        request.body.feed(part)

    def on_message_complete(self) -> None:
        request = self._receiving
        if request is not None:
            self._receiving = None
            request.body.complete()

    def _count_head(self, byte_count: int) -> None:
        self._head_bytes += byte_count
        if self._head_bytes > limits.HTTP_HEAD_BYTES_MAX:
            raise HttpError(431, f"The head of a request has at most {limits.HTTP_HEAD_BYTES_MAX} bytes.")

    def _refuse_body(self, request: Request) -> None:
        """The rest is not read: it may be endless."""
        request.fail(HttpError(413, f"The body of this request has at most {request.bytes_max} bytes."))
        request.be_last()
        self._receiving = None


def _check_head(version: str, headers: dict[str, str]) -> None:
    if version not in ("1.1", "1.0"):
        raise HttpError(505, "This server speaks HTTP/1.1.")
    if version == "1.1" and "host" not in headers:
        raise HttpError(400, "The header Host is missing.")
    if headers.get("transfer-encoding", "chunked").strip().lower() != "chunked":
        raise HttpError(501, "The only Transfer-Encoding is chunked.")
    if headers.get("expect", "100-continue").strip().lower() != "100-continue":
        raise HttpError(417, "The only expectation that is met is 100-continue.")
