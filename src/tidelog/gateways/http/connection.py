"""One HTTP/1.1 connection: bytes into the intake, its requests to the service one after the other, answers out.

What a client has sent and not yet got an answer to is charged to the byte budget that all doors of the node share, of
which this one has a part. When that or a bound of the intake is reached, the socket is left unread; no queue grows.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final, cast

from tidelog.gateways.http.intake import Intake
from tidelog.gateways.http.messages import HttpError, Request
from tidelog.gateways.http.sending import Sender
from tidelog.model import limits
from tidelog.model.errors import BrokerError
from tidelog.net.budget import BudgetShare
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.http.listener import HttpListener
    from tidelog.net.budget import ByteBudget

logger = get_logger("tidelog.http")

LINGER_SECONDS: Final = 1.0
STREAMED_SILENT_SECONDS_MAX: Final = 600.0
"""How long a body that its handler reads as it comes may make no progress."""


class HttpConnection(asyncio.Protocol):
    def __init__(self, listener: HttpListener, accepted: socket.socket | None) -> None:
        """`accepted` is what the transport works on, where it sends bytes as they are."""
        self._listener = listener
        self._accepted = accepted
        self._share = BudgetShare(listener.budget, limits.CONNECTION_IN_FLIGHT_BYTES_MAX)
        self.intake: Final = Intake(listener.service.find_route, self._share.charge, self._body_taken)
        self._transport: asyncio.Transport
        self.access: LogAccess
        self._gate: _Gate
        self.sender: Sender
        self._answering: asyncio.Task[None] | None = None
        self._is_closing = False
        self._close_reason = "peer"
        self.heard_s = listener.now_s()
        """When the client last sent or took something."""

    # -- called by the transport ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.sender = Sender(self._transport, self._accepted, self._listener.burst)
        self._gate = _Gate(self._transport, self.intake, self._share, self._listener.budget)
        peer = transport.get_extra_info("peername")
        self.access = self._listener.introduce(peer[0] if peer else "")
        self._listener.connection_opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        self._gate.close()
        self._share.close()
        self.sender.lose()
        for request in self.intake.waiting:
            request.body.fail(HttpError(400, "The connection has ended."))
        if self._answering is not None:
            self._answering.cancel()
        self._listener.connection_closed(self, self._close_reason)

    def data_received(self, data: bytes) -> None:
        if not self._is_closing:
            self.heard_s = self._listener.now_s()
            self.intake.feed(data)
            self._go_on()

    def eof_received(self) -> bool:
        """A client that has sent all it wants may still read answers."""
        if self._is_closing:
            return False
        self.intake.end()
        waiting = self.intake.waiting
        if waiting and waiting[0].route is not None and waiting[0].route.ends_with_client:
            self.abort("peer")
            return False
        self._go_on()
        return bool(waiting)

    def pause_writing(self) -> None:
        self.sender.hold_up()

    def resume_writing(self) -> None:
        self.heard_s = self._listener.now_s()
        self.sender.go_on()

    # -- answering -----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """One request is answered at a time, so that answers come in the order of the requests."""
        if self._answering is None and not self._is_closing:
            request = self.intake.ready
            if request is not None:
                self._answering = self._listener.start(self._answer(request))
            elif self.intake.waiting and self.intake.waiting[0].must_continue():
                self.sender.say_continue()
        self._gate.maybe_pause()

    async def _answer(self, request: Request) -> None:
        service = self._listener.service
        if request.is_streamed and request.must_continue():
            self.sender.say_continue()
        answer = await service.answer(self.access, request)
        try:
            await self.sender.send(request, answer, service.headers_for(request))
        except (HttpError, BrokerError) as fault:
            # Too late for a status: an end without the last chunk says that the answer is not whole.
            logger.info_limited("a stream has ended early", limit_by=("reason",), reason=fault.message)
            self.abort("error")
        except ConnectionResetError:
            return
        except Exception:
            logger.exception_limited("an answer has ended early", limit_by=("route",), route=request.route_name)
            self.abort("error")
        self._answering = None
        if self._is_closing:
            return
        self._share.release(request.body.held_bytes)
        self.intake.finish(request)
        if not request.is_kept_alive:
            self._end_politely()
            return
        self._gate.maybe_resume()
        self._go_on()

    # -- bounds --------------------------------------------------------------------------------------------------------

    def _body_taken(self, byte_count: int) -> None:
        """The handler has read that much of a body that it reads as it comes."""
        self._share.release(byte_count)
        self._gate.maybe_resume()

    def has_stalled(self, silent_s: float, seconds_max: float) -> bool:
        """The rest of a request has been missing for so long, and not because its handler has enough for now. One that
        is read as it comes may come slowly."""
        intake = self.intake
        if not intake.is_arriving or intake.is_full:
            return False
        if intake.waiting and intake.waiting[-1].is_streamed:
            seconds_max = STREAMED_SILENT_SECONDS_MAX
        return silent_s > seconds_max

    # -- ending --------------------------------------------------------------------------------------------------------

    def refuse(self, fault: HttpError, reason: str) -> None:
        """The answer that says so is the last one."""
        self._close_reason = reason
        self.intake.refuse(fault)
        self._go_on()

    def finish(self) -> None:
        """The node stops: what has arrived is answered, and nothing that follows."""
        self._close_reason = "shutdown"
        for request in self.intake.waiting:
            request.be_last()
        if not self.intake.waiting:
            self.close("shutdown")

    def _end_politely(self) -> None:
        """A connection that is closed while its client still sends is reset, and the client may lose the answer. So
        this side ends first, and what comes is dropped for a moment, or until the client ends its own."""
        self._is_closing = True
        self.sender.flush()
        self._transport.write_eof()
        self._gate.open()
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)

    def close(self, reason: str) -> None:
        """What was written is still sent."""
        self._is_closing = True
        self._close_reason = reason
        self.sender.flush()
        self._transport.close()

    def abort(self, reason: str) -> None:
        """What was written and not sent is dropped."""
        self._is_closing = True
        self._close_reason = reason
        self._transport.abort()


class _Gate:
    """Whether the socket is read."""

    __slots__ = ("_budget", "_intake", "_is_closed", "_is_reading", "_share", "_transport")

    def __init__(self, transport: asyncio.Transport, intake: Intake, share: BudgetShare, budget: ByteBudget) -> None:
        self._transport = transport
        self._intake = intake
        self._share = share
        self._budget = budget
        self._is_reading = True
        self._is_closed = False

    def _must_pause(self) -> bool:
        return self._intake.is_full or (self._share.is_spent and self._share.held_bytes >= limits.HTTP_SMALL_BYTES)

    def maybe_pause(self) -> None:
        if self._is_reading and not self._is_closed and self._must_pause():
            self._is_reading = False
            self._transport.pause_reading()
            if self._budget.is_spent:
                self._budget.wait(self)

    def maybe_resume(self) -> None:
        if not (self._is_reading or self._is_closed or self._must_pause()):
            self._resume()

    def resume_from_budget(self) -> None:
        """The node has bytes free again."""
        self.maybe_resume()
        if not self._is_reading and not self._is_closed and self._budget.is_spent:
            self._budget.wait(self)

    def _resume(self) -> None:
        self._is_reading = True
        self._budget.forget(self)
        self._transport.resume_reading()

    def open(self) -> None:
        """What comes from now on is dropped, so nothing holds it up any more."""
        self._is_closed = True
        if not self._is_reading:
            self._resume()

    def close(self) -> None:
        self._is_closed = True
        self._budget.forget(self)
