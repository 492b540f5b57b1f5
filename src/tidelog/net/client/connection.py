"""One connection to a peer on the event loop: requests are pipelined, each with a deadline of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple, cast

from tidelog.model import limits
from tidelog.model.errors import BrokerError
from tidelog.net.client.conversation import Conversation
from tidelog.net.client.errors import PeerUnreachable, RpcTimedOut
from tidelog.net.client.handshake import Handshake
from tidelog.net.client.versions import PeerVersions
from tidelog.net.framing import Frame, FrameError, FrameReader
from tidelog.protocol.index import api_name

_NO_LINGER = Struct("ii").pack(1, 0)


class _Waiter(NamedTuple):
    answer: asyncio.Future[Frame]
    timer: asyncio.TimerHandle


class ClientConnection(asyncio.BufferedProtocol):
    """From `connection_made` until `abort` or the loss of the connection, which `on_lost` hears of once."""

    __slots__ = ("_frames", "_on_lost", "_peer", "conversation", "is_lost", "transport", "versions")

    def __init__(
        self,
        peer: str,
        client_id: str,
        scratch: memoryview,
        on_lost: Callable[[ClientConnection, str, bool], None],
    ) -> None:
        """`on_lost(connection, reason, had_requests)`."""
        self._peer = peer
        self._on_lost = on_lost
        self._frames = FrameReader(scratch, limits.RPC_RESPONSE_BYTES_MAX, limits.RESPONSE_BYTES_MIN)
        self.conversation: Conversation[_Waiter] = Conversation(client_id)
        self.transport: asyncio.Transport | None = None
        self.is_lost = False
        self.versions: PeerVersions | None = None
        """What the peer serves; None when it was not asked."""

    # -- asyncio.BufferedProtocol --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_lost:
            return
        try:
            for frame in self._frames.filled(nbytes):
                sent, body = self.conversation.match(frame)
                sent.waiter.timer.cancel()
                if not sent.waiter.answer.done():
                    sent.waiter.answer.set_result(body)
        except (FrameError, BrokerError) as error:
            self.abort(f"its answer could not be read: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self._end("the connection was closed" if error is None else f"the connection was lost: {error}")

    # -- requests ------------------------------------------------------------------------------------------------------

    def send(
        self, api_key: int, version: int, body: bytes | bytearray, deadline_s: float, timeout_s: float
    ) -> asyncio.Future[Frame]:
        """The future gets the body of the answer, or an RpcError. After `deadline_s`, in the loop's time, the
        connection is closed; `timeout_s` is how long that was, for the error."""
        assert self.transport is not None, "a connection is used when it is open"
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Frame] = loop.create_future()
        timer = loop.call_at(deadline_s, self._time_out, answer, api_key, timeout_s)
        self.transport.write(self.conversation.encode(api_key, version, body, _Waiter(answer, timer)))
        return answer

    async def shake_hands(self, handshake: Handshake, timeout_s: float) -> None:
        """Takes all steps of the handshake. RpcError when one of them fails."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        try:
            step = next(handshake)
            while True:
                step = handshake.send(await self.send(*step, deadline_s, timeout_s))
        except StopIteration as done:
            self.versions = done.value

    def _time_out(self, answer: asyncio.Future[Frame], api_key: int, timeout_s: float) -> None:
        if not answer.done():
            answer.set_exception(RpcTimedOut(f"{self._peer} did not answer {api_name(api_key)} within {timeout_s:g} s"))
        self.abort("another request to it timed out")

    def abort(self, reason: str) -> None:
        """Closes the connection at once; requests without an answer fail for this reason.

        What the peer has not received never arrives: the kernel drops it, instead of sending it again for minutes. A
        marker that ends a transaction is sent again when it is not answered in time. A first copy that came after the
        second would end the next transaction of a producer that keeps its epoch.
        """
        if self.transport is not None:
            connection = self.transport.get_extra_info("socket")
            if connection is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.transport.abort()
        self._end(reason)

    def _end(self, reason: str) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        unanswered = self.conversation.give_up()
        self._on_lost(self, reason, bool(unanswered))
        for sent in unanswered:
            sent.waiter.timer.cancel()
            if not sent.waiter.answer.done():
                sent.waiter.answer.set_exception(PeerUnreachable(f"{self._peer}: {reason}"))
