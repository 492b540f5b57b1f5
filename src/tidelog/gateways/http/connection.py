"""One HTTP/1.1 connection: bytes in, requests through the routes in their order, answers out.

llhttp (by httptools) parses, strictly: what two servers could read in two ways ends the connection with 400. Everything
that a client can make large has a bound in `model/limits.py`, and whatever it has sent and not yet got an answer to is
charged to the byte budget that all doors share. When a bound is reached the socket is left unread; no queue grows.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httptools

from tidelog.gateways.http.errors import UNEXPECTED
from tidelog.gateways.http.messages import Answer, Body, HttpError, Request, Response, Stream
from tidelog.gateways.http.routes import read_parameters
from tidelog.model import limits
from tidelog.model.errors import BrokerError
from tidelog.net.budget import BudgetShare
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.http.listener import HttpListener

logger = get_logger("tidelog.http")

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
LINGER_SECONDS: Final = 1.0


class HttpConnection(asyncio.Protocol):
    __slots__ = (
        "_access",
        "_answering",
        "_can_write",
        "_head_bytes",
        "_headers",
        "_is_closing",
        "_is_reading",
        "_listener",
        "_parser",
        "_receiving",
        "_share",
        "_target",
        "_transport",
        "_waiting",
        "heard_s",
        "peer_host",
    )

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self._parser = httptools.HttpRequestParser(self)
        self._share = BudgetShare(listener.shared.budget, limits.CONNECTION_IN_FLIGHT_BYTES_MAX)
        self._transport: asyncio.Transport
        self._access: LogAccess
        self._target = b""
        self._headers: dict[str, str] | None = None
        """Of the request whose head is arriving; None between requests."""
        self._head_bytes = 0
        self._receiving: Request | None = None
        """The request whose body is arriving."""
        self._waiting: list[Request] = []
        """Requests that have not been handled, in their order. The last may still be arriving."""
        self._answering: asyncio.Task[None] | None = None
        self._can_write: asyncio.Future[None] | None = None
        """Set while the client reads slower than it is written to."""
        self._is_reading = True
        self._is_closing = False
        self.heard_s = 0.0
        """When the client last sent or took something."""
        self.peer_host = ""

    # -- called by the transport ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "pause_reading")
        self._transport = transport  # type: ignore[assignment]
        peer = transport.get_extra_info("peername")
        self.peer_host = peer[0] if peer else "?"
        self._access = self._listener.introduce(self.peer_host)
        self._listener.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        self._share.close()
        self._listener.shared.budget.forget(self)
        if self._receiving is not None:
            self._receiving.body.fail(HttpError(400, "The connection has ended."))
        if self._can_write is not None and not self._can_write.done():
            self._can_write.set_exception(ConnectionResetError())
            self._can_write.exception()
        if self._answering is not None:
            self._answering.cancel()
        self._listener.closed(self)

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        self.heard_s = self._listener.now_s()
        try:
            self._parser.feed_data(data)
            if self._headers is not None:
                self._head_bytes += len(data)
                if self._head_bytes > limits.HTTP_HEAD_BYTES_MAX:
                    raise HttpError(431, f"The head of a request has at most {limits.HTTP_HEAD_BYTES_MAX} bytes.")
        except httptools.HttpParserUpgrade:
            # A server may go on in HTTP/1.1. What follows on this connection is not parsed: the request is the last.
            if self._waiting:
                self._waiting[-1].is_kept_alive = False
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            self.refuse(cause if isinstance(cause, HttpError) else UNEXPECTED)
        except httptools.HttpParserError as error:
            self.refuse(HttpError(400, f"This is not HTTP/1.1: {error}."))
        except HttpError as error:
            self.refuse(error)
        self._maybe_pause()

    def eof_received(self) -> bool:
        """A client that has sent all it wants may still read answers."""
        if self._receiving is not None or self._headers is not None:
            self.refuse(HttpError(400, "The request ends before it is complete."))
        if not self._waiting or self._is_closing:
            return False
        self._waiting[-1].is_kept_alive = False
        return True

    def pause_writing(self) -> None:
        self._can_write = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        self.heard_s = self._listener.now_s()
        waiting, self._can_write = self._can_write, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    # -- called by the parser ------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._waiting and not self._waiting[-1].is_kept_alive:
            raise HttpError(400, "A request follows one that asked for the end of the connection.")
        self._target = b""
        self._headers = {}
        self._head_bytes = 0

    def on_url(self, part: bytes) -> None:
        self._target += part
        if len(self._target) > limits.HTTP_HEAD_BYTES_MAX:
            raise HttpError(414, f"The path is longer than {limits.HTTP_HEAD_BYTES_MAX} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._headers
        if headers is None:
            # A trailer behind a chunked body says nothing that is needed here.
            return
        if len(headers) >= limits.HTTP_HEADERS_MAX:
            raise HttpError(431, f"A request has at most {limits.HTTP_HEADERS_MAX} headers.")
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        if key in headers:
            if key in ("host", "content-length", "content-type", "authorization"):
                raise HttpError(400, f"{name.decode('latin-1')} comes more than once.")
            text = f"{headers[key]},{text}"
        headers[key] = text

    def on_headers_complete(self) -> None:
        headers = self._headers
        assert headers is not None
        self._headers = None
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise HttpError(505, "This server speaks HTTP/1.1.")
        if version == "1.1" and "host" not in headers:
            raise HttpError(400, "The header Host is missing.")
        if headers.get("transfer-encoding", "chunked").strip().lower() != "chunked":
            raise HttpError(501, "The only Transfer-Encoding is chunked.")
        path, _, query = self._target.decode("latin-1").partition("?")
        body = Body(self._body_taken)
        request = Request(parser.get_method().decode("latin-1"), path, query, headers, body, version)
        request.is_kept_alive = version == "1.1" and parser.should_keep_alive()
        self._receiving = request
        self._waiting.append(request)
        self._listener.find_route(request)
        announced = headers.get("content-length")
        if announced is not None and not request.is_streamed and int(announced) > request.bytes_max:
            self._too_large(request)
        if "expect" in headers and version == "1.1":
            self._maybe_continue(request, headers["expect"])
        if request.is_streamed:
            self._maybe_answer()

    def on_body(self, part: bytes) -> None:
        request = self._receiving
        if request is None:
            return
        if not request.is_streamed and request.body.size + len(part) > request.bytes_max:
            self._too_large(request)
            return
        self._share.charge(len(part))
        request.body.feed(part)

    def on_message_complete(self) -> None:
        request = self._receiving
        if request is not None:
            self._receiving = None
            request.body.complete()
            self._maybe_answer()

    def _too_large(self, request: Request) -> None:
        """The rest is not read: it may be endless."""
        if request.fault is None:
            request.fault = HttpError(413, f"The body of this request has at most {request.bytes_max} bytes.")
        request.is_kept_alive = False
        self._receiving = None
        request.body.complete()
        self._maybe_answer()

    def _maybe_continue(self, request: Request, expected: str) -> None:
        if expected.strip().lower() != "100-continue":
            raise HttpError(417, "The only expectation that is met is 100-continue.")
        if request.fault is None and self._answering is None and self._waiting[0] is request:
            self._transport.write(_CONTINUE)

    # -- answering -----------------------------------------------------------------------------------------------------

    def _maybe_answer(self) -> None:
        """Starts to handle the first request that waits, one at a time: their answers come in their order."""
        if self._answering is not None or not self._waiting or self._is_closing:
            return
        request = self._waiting[0]
        if request is self._receiving and not request.is_streamed:
            return
        self._answering = self._listener.start(self._answer(request))

    async def _answer(self, request: Request) -> None:
        try:
            answer = await self._handle(request)
            if isinstance(answer, Stream):
                await self._send_stream(request, answer)
            else:
                self._send(request, answer)
                if self._can_write is not None:
                    await self._can_write
        except ConnectionResetError:
            self._is_closing = True
        finally:
            self._answering = None
        self._finish(request)

    async def _handle(self, request: Request) -> Answer:
        if request.fault is not None:
            preflight = self._listener.answer_preflight(request)
            return preflight or self._listener.respond_to_fault(request, request.fault)
        route = request.route
        assert route is not None, "a request without a fault has a route"
        try:
            return await route.handle(self._access, request, read_parameters(route, request))
        except (HttpError, BrokerError) as fault:
            return self._listener.respond_to_fault(request, fault)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception_limited("request failed", limit_by=("route",), route=route.name)
            return self._listener.respond_to_fault(request, UNEXPECTED)

    def _finish(self, request: Request) -> None:
        if self._is_closing:
            return
        del self._waiting[0]
        self._share.release(request.body.held_bytes)
        if request is self._receiving:
            # Its handler did not want the rest, so nothing that follows can be read as a request.
            self._receiving = None
            request.is_kept_alive = False
        if not request.is_kept_alive:
            self._end_politely()
            return
        self._maybe_resume()
        self._maybe_answer()

    def _send(self, request: Request, response: Response) -> None:
        body = response.body
        head = self._head(request, response, f"Content-Length: {len(body)}\r\n")
        self._transport.write(head if request.method == "HEAD" else head + body)

    async def _send_stream(self, request: Request, stream: Stream) -> None:
        """Chunked; to a client of HTTP/1.0 until the connection ends."""
        is_chunked = request.version == "1.1"
        if not is_chunked:
            request.is_kept_alive = False
        self._transport.write(self._head(request, stream, "Transfer-Encoding: chunked\r\n" if is_chunked else ""))
        if request.method == "HEAD":
            return
        parts = stream.parts
        try:
            async for part in parts:
                if part:
                    self._transport.write(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
                if self._can_write is not None:
                    await self._can_write
                if self._is_closing:
                    raise ConnectionResetError
        except (HttpError, BrokerError) as fault:
            # Too late for a status: the missing last chunk says that the answer is not whole.
            logger.info_limited("a stream has ended early", limit_by=("reason",), reason=fault.message)
            self.close()
            return
        finally:
            await parts.aclose()  # type: ignore[attr-defined]
        if is_chunked:
            self._transport.write(_LAST_CHUNK)

    def _head(self, request: Request, answer: Answer, length: str) -> bytes:
        lines = [f"Date: {self._listener.date()}\r\n", length]
        if answer.content_type and answer.status != 204:
            lines.append(f"Content-Type: {answer.content_type}\r\n")
        if not request.is_kept_alive:
            lines.append("Connection: close\r\n")
        for headers in (answer.headers, self._listener.extra_headers(request)):
            if headers:
                lines.extend([f"{name}: {value}\r\n" for name, value in headers.items()])
        return _STATUS_LINES[answer.status] + "".join(lines).encode("latin-1") + b"\r\n"

    def refuse(self, error: HttpError) -> None:
        """Of bytes that are no request: the answer is the last, behind those of the requests before it."""
        if self._receiving is not None:
            request = self._receiving
            self._receiving = None
            request.body.fail(error)
        else:
            request = Request("GET", "/", "", {}, Body(self._body_taken))
            self._waiting.append(request)
        request.fault = request.fault or error
        request.is_kept_alive = False
        self._headers = None
        self._listener.shared.metrics.count_closed("malformed")
        self._maybe_answer()

    # -- bounds --------------------------------------------------------------------------------------------------------

    def _must_pause(self) -> bool:
        waiting = self._waiting
        if len(waiting) > limits.HTTP_PIPELINED_REQUESTS_MAX or self._share.is_spent:
            return True
        if not waiting or not waiting[-1].is_kept_alive:
            return bool(waiting)
        last = waiting[-1]
        return last.is_streamed and last.body.held_bytes > limits.HTTP_STREAMED_BODY_BYTES_MAX

    def _maybe_pause(self) -> None:
        if self._is_reading and not self._is_closing and self._must_pause():
            self._is_reading = False
            self._transport.pause_reading()
            if self._listener.shared.budget.is_spent:
                self._listener.shared.budget.wait(self)

    def _maybe_resume(self) -> None:
        if not self._is_reading and not self._is_closing and not self._must_pause():
            self._is_reading = True
            self._listener.shared.budget.forget(self)
            self._transport.resume_reading()

    def resume_from_budget(self) -> None:
        """The node has bytes free again."""
        self._maybe_resume()
        if not self._is_reading and not self._is_closing and self._listener.shared.budget.is_spent:
            self._listener.shared.budget.wait(self)

    def _body_taken(self, byte_count: int) -> None:
        """The handler has read that much of a body that it reads as it comes."""
        self._share.release(byte_count)
        self._maybe_resume()

    @property
    def is_idle(self) -> bool:
        return not self._waiting and self._headers is None

    @property
    def is_incomplete(self) -> bool:
        """A request has begun to arrive, and the socket is read for the rest."""
        return self._is_reading and (self._headers is not None or self._receiving is not None)

    @property
    def is_stuck(self) -> bool:
        """The client does not read what it is sent."""
        return self._can_write is not None

    def _end_politely(self) -> None:
        """A connection that is closed while its client still sends is reset, and the client may lose the answer. So
        this side ends first, and what comes is dropped for a moment, or until the client ends its own."""
        if self._is_closing:
            return
        self._is_closing = True
        self._transport.write_eof()
        if not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()
        self._listener.later(LINGER_SECONDS, self._transport.close)

    def close(self) -> None:
        """What was written is still sent."""
        if not self._is_closing:
            self._is_closing = True
            self._transport.close()

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def finish(self) -> None:
        """The node stops: the answer that is under way is the last one."""
        for request in self._waiting:
            request.is_kept_alive = False
        if not self._waiting:
            self.close()
