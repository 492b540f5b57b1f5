"""Requests from one node to another: Kafka's framing and codecs from the other end of the wire.

An `RpcClient` holds one connection to one peer for one purpose, so that a fetch that waits half a second at the leader
never stands in front of a heartbeat. Requests are pipelined and matched by correlation id. What is under way is bounded
in number and bytes; more is refused, not queued. A call ends with its answer or with an `RpcError`; after an error
nobody can say whether the peer carried the request out.

A connection is opened by the first call. When it cannot be, calls fail at once until a back-off has passed, so that
nobody hammers a dead peer. Where the peer lives is asked anew before every call: nodes move.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from struct import Struct
from typing import TypeVar, cast

from tidelog.model import limits
from tidelog.model.errors import BrokerError
from tidelog.net.framing import SCRATCH_BYTES, Frame, FrameError, FrameReader
from tidelog.protocol.headers import decode_response_header, encode_request_header
from tidelog.protocol.index import api_name, is_response_header_flexible, response_class, schema_versions
from tidelog.protocol.message import Message

Address = tuple[str, int]
M = TypeVar("M", bound=Message)

CONNECT_TIMEOUT_S = 2.0
"""The kernel asks an address that does not answer again after 1, 3 and 7 seconds: who waits on for that is late when a
network comes back."""
BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 1.0
DEFAULT_TIMEOUT_S = 30.0

_pack_size = Struct(">i").pack
_LINGER_NOT = Struct("ii").pack(1, 0)


class RpcError(OSError):
    """A call to another node got no usable answer. The text is one line for people."""


class PeerUnreachable(RpcError):
    """No address, no connection, or the connection went away before the answer."""


class RpcTimedOut(RpcError):
    """No answer in time. The connection was closed: answers come in order, so none behind it would be on time."""


class PeerBusy(RpcError):
    """Too much is under way to this peer already; nothing was sent."""


class BadAnswer(RpcError):
    """The peer answered with bytes that are no such response."""


class _Call:
    __slots__ = ("answer", "api_key", "size", "timer", "version")

    def __init__(self, api_key: int, version: int, size: int, answer: asyncio.Future[Frame]) -> None:
        self.api_key = api_key
        self.version = version
        self.size = size
        self.answer = answer
        self.timer: asyncio.TimerHandle | None = None


class _Wire(asyncio.BufferedProtocol):
    """One TCP connection: frames in, bytes out."""

    __slots__ = ("_frames", "_on_frame", "_on_lost", "is_lost", "transport")

    def __init__(
        self, on_frame: Callable[[_Wire, Frame], None], on_lost: Callable[[_Wire, str], None], scratch: memoryview
    ) -> None:
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._frames = FrameReader(scratch, limits.RPC_RESPONSE_BYTES_MAX, limits.RESPONSE_BYTES_MIN)
        self.transport: asyncio.Transport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.filled(nbytes):
                self._on_frame(self, frame)
        except (FrameError, BrokerError) as error:
            self.abort()
            self._on_lost(self, f"its answer could not be read: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self._on_lost(self, "the connection was closed" if error is None else f"the connection was lost: {error}")

    def abort(self) -> None:
        """What the peer has not received never arrives: the kernel drops it, instead of sending it again for minutes.

        A marker that ends a transaction is sent again when it is not answered in time. A first copy that came after the
        second would end the next transaction of a producer that keeps its epoch.
        """
        if self.transport is not None:
            connection = self.transport.get_extra_info("socket")
            if connection is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            self.transport.abort()


class RpcClient:
    """Calls to one peer over one connection. All methods belong to the event loop."""

    def __init__(
        self,
        peer: str,
        find_address: Callable[[], Address | None],
        *,
        client_id: str,
        scratch: memoryview | None = None,
        in_flight_requests_max: int = limits.RPC_IN_FLIGHT_REQUESTS_MAX,
        in_flight_bytes_max: int = limits.RPC_IN_FLIGHT_BYTES_MAX,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        """`peer` names it in errors. `find_address` says where it is now; None when nobody knows."""
        self._peer = peer
        self._find_address = find_address
        self._client_id = client_id
        self._scratch = memoryview(bytearray(SCRATCH_BYTES)) if scratch is None else scratch
        self._requests_max = in_flight_requests_max
        self._bytes_max = in_flight_bytes_max
        self._connect_timeout_s = connect_timeout_s
        self._calls: dict[int, _Call] = {}
        self._in_flight_bytes = 0
        self._next_correlation_id = 0
        self._wire: _Wire | None = None
        self._address: Address | None = None
        self._connecting: asyncio.Future[_Wire] | None = None
        self._backoff_s = 0.0
        self._not_before_s = 0.0
        self._last_failure = ""
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        return self._wire is not None

    @property
    def in_flight_requests(self) -> int:
        return len(self._calls)

    # -- calling -----------------------------------------------------------------------------------------------------

    async def call(
        self, request: Message, answer: type[M], *, version: int | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> M:
        """Sends the request in the given version (the newest by default) and returns the response, an `answer`."""
        api_key = request.API_KEY
        assert api_key is not None, "only requests can be sent"
        assert answer is response_class(api_key), f"{answer.__name__} answers no {type(request).__name__}"
        if version is None:
            version = schema_versions(api_key)[1]
        frame, position = await self.call_encoded(api_key, version, request.encode(version), timeout_s=timeout_s)
        try:
            return answer.decode(frame, position, version)[0]
        except BrokerError as error:
            raise BadAnswer(f"{self._peer}: {error.message}") from None

    async def call_encoded(
        self, api_key: int, version: int, body: bytes | bytearray, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Frame:
        """The same with a body that is encoded already: the answer is a buffer and where the body begins in it."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        wire = self._usable_wire() or await self._connect(timeout_s)
        if wire is not self._wire:
            raise PeerUnreachable(f"{self._peer}: the connection was closed")
        if len(self._calls) >= self._requests_max or (
            self._calls and self._in_flight_bytes + len(body) > self._bytes_max
        ):
            raise PeerBusy(f"{self._peer}: {len(self._calls)} requests are under way already")
        self._next_correlation_id = correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        header = encode_request_header(api_key, version, correlation_id, self._client_id)
        call = _Call(api_key, version, len(body), loop.create_future())
        self._calls[correlation_id] = call
        self._in_flight_bytes += call.size
        call.timer = loop.call_at(deadline_s, self._time_out, wire, call, timeout_s)
        assert wire.transport is not None, "a wire is used when it is connected"
        wire.transport.write(b"".join((_pack_size(len(header) + len(body)), header, body)))
        frame, start = await call.answer
        flexible = is_response_header_flexible(api_key, version)
        return frame, decode_response_header(frame, flexible, start)[1]

    def _time_out(self, wire: _Wire, call: _Call, timeout_s: float) -> None:
        if not call.answer.done():
            call.answer.set_exception(
                RpcTimedOut(f"{self._peer} did not answer {api_name(call.api_key)} within {timeout_s:g} s")
            )
        wire.abort()
        self._lost(wire, "another request to it timed out")

    # -- the connection ----------------------------------------------------------------------------------------------

    def _usable_wire(self) -> _Wire | None:
        """The open connection, unless the peer has moved."""
        if self._is_closed:
            raise PeerUnreachable(f"{self._peer}: this node is stopping")
        wire = self._wire
        if wire is not None and self._find_address() != self._address:
            wire.abort()
            self._lost(wire, "it has moved to another address")
            self._backoff_s = self._not_before_s = 0.0
            return None
        return wire

    async def _connect(self, timeout_s: float) -> _Wire:
        loop = asyncio.get_running_loop()
        connecting = self._connecting
        if connecting is None:
            if loop.time() < self._not_before_s:
                raise PeerUnreachable(f"{self._peer}: {self._last_failure}")
            connecting = self._connecting = asyncio.ensure_future(self._open())
            connecting.add_done_callback(_retrieve)
        try:
            async with asyncio.timeout(timeout_s):
                # Shielded: others may be waiting for the same connection.
                return await asyncio.shield(connecting)
        except TimeoutError:
            raise RpcTimedOut(f"{self._peer} could not be reached within {timeout_s:g} s") from None

    async def _open(self) -> _Wire:
        loop = asyncio.get_running_loop()
        try:
            address = self._find_address()
            if address is None:
                raise PeerUnreachable(f"{self._peer}: its address is not known")
            host, port = address
            try:
                async with asyncio.timeout(self._connect_timeout_s):
                    _, wire = await loop.create_connection(
                        lambda: _Wire(self._answered, self._lost, self._scratch), host, port
                    )
            except (OSError, TimeoutError) as error:
                reason = str(error) or f"no connection within {self._connect_timeout_s:g} s"
                raise PeerUnreachable(f"{self._peer} cannot be reached at {host}:{port}: {reason}") from None
            if self._is_closed or wire.is_lost:
                wire.abort()
                reason = "this node is stopping" if self._is_closed else "it closed the connection at once"
                raise PeerUnreachable(f"{self._peer}: {reason}")
        except PeerUnreachable as failure:
            self._back_off(str(failure).removeprefix(f"{self._peer}: "))
            raise
        finally:
            self._connecting = None
        self._wire, self._address = wire, address
        return wire

    def _back_off(self, reason: str) -> None:
        """Half of the delay is chance, so that nodes that lost the same peer do not come back in step."""
        self._backoff_s = min(BACKOFF_MAX_S, max(BACKOFF_FIRST_S, 2 * self._backoff_s))
        self._not_before_s = asyncio.get_running_loop().time() + self._backoff_s * (0.5 + os.urandom(1)[0] / 512)
        self._last_failure = reason

    def _answered(self, wire: _Wire, frame: Frame) -> None:
        if wire is not self._wire:
            return
        correlation_id, _ = decode_response_header(frame[0], False, frame[1])
        call = self._calls.pop(correlation_id, None)
        if call is None:
            raise FrameError(f"correlation id {correlation_id} belongs to no request")
        self._backoff_s = 0.0
        self._in_flight_bytes -= call.size
        if call.timer is not None:
            call.timer.cancel()
        if not call.answer.done():
            call.answer.set_result(frame)

    def hang_up(self) -> None:
        """Ends what is under way: it fails as if the connection had broken. The next call connects at once."""
        if self._wire is not None:
            self._wire.abort()
            self._lost(self._wire, "the request was given up", is_own_doing=True)

    def _lost(self, wire: _Wire, reason: str, *, is_own_doing: bool = False) -> None:
        if wire is not self._wire:
            return
        self._wire = self._address = None
        # A connection that never carried an answer was as good as none.
        if (self._backoff_s or self._calls) and not is_own_doing:
            self._back_off(reason)
        calls, self._calls = self._calls, {}
        self._in_flight_bytes = 0
        for call in calls.values():
            if call.timer is not None:
                call.timer.cancel()
            if not call.answer.done():
                call.answer.set_exception(PeerUnreachable(f"{self._peer}: {reason}"))

    def close(self) -> None:
        """Everything under way fails now, and so does every later call."""
        self._is_closed = True
        if self._wire is not None:
            self._wire.abort()
            self._lost(self._wire, "this node is stopping")
        if self._connecting is not None:
            self._connecting.cancel()


class RpcPool:
    """The connections of one node to its peers: one per peer and purpose, made when first asked for."""

    def __init__(self, find_address: Callable[[int], Address | None], *, client_id: str) -> None:
        self._find_address = find_address
        self._client_id = client_id
        self._clients: dict[tuple[int, str], RpcClient] = {}
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        """Shared: what a connection reads into it is taken out before the next one reads."""

    def client(self, node_id: int, purpose: str) -> RpcClient:
        """`purpose` keeps apart what must not wait for each other: "fetch", "control", "raft"."""
        client = self._clients.get((node_id, purpose))
        if client is None:
            client = self._clients[node_id, purpose] = RpcClient(
                f"node {node_id}",
                lambda: self._find_address(node_id),
                client_id=f"{self._client_id}-{purpose}",
                scratch=self._scratch,
            )
        return client

    def forget(self, node_id: int) -> None:
        """The node is no longer a peer: its connections are closed."""
        for key in [key for key in self._clients if key[0] == node_id]:
            self._clients.pop(key).close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()


def _retrieve(connecting: asyncio.Future[_Wire]) -> None:
    """A connection nobody waits for any more may fail in silence."""
    if not connecting.cancelled():
        connecting.exception()
