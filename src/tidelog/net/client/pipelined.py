"""Requests to one peer, for one purpose, over a connection that is opened again when it is lost.

One purpose, so that a fetch that waits half a second at the leader never stands in front of a heartbeat. What is under
way is bounded in number and bytes; more is refused, not queued. A call ends with its answer or with an `RpcError`;
after an error the peer may have carried the request out.

The first call opens the connection. When that fails, calls fail at once until a back-off has passed. The address is
looked up before every call, because nodes move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from tidelog.model import limits
from tidelog.net.client.backoff import Backoff
from tidelog.net.client.connection import ClientConnection
from tidelog.net.client.conversation import decode_answer, expected_answer
from tidelog.net.client.errors import PeerBusy, PeerUnreachable, RpcError, RpcTimedOut
from tidelog.net.client.handshake import begin_handshake
from tidelog.net.client.versions import PeerVersions
from tidelog.net.framing import SCRATCH_BYTES, Frame
from tidelog.net.network import NETWORK, Network
from tidelog.protocol.index import schema_versions
from tidelog.protocol.message import Message
from tidelog.protocol.private_apis import NODE_SOFTWARE_NAME

Address = tuple[str, int]
M = TypeVar("M", bound=Message)

CONNECT_TIMEOUT_S = 2.0
"""The kernel repeats an attempt to connect after 1, 3 and 7 seconds. Waiting for those would delay the node when the
network comes back."""
HANDSHAKE_TIMEOUT_S = 5.0
DEFAULT_TIMEOUT_S = 30.0


class InFlight(NamedTuple):
    """What one connection may have under way."""

    requests: int
    size_bytes: int


IN_FLIGHT_MAX = InFlight(limits.RPC_IN_FLIGHT_REQUESTS_MAX, limits.RPC_IN_FLIGHT_BYTES_MAX)


class RpcClient:
    """Calls to one peer over one connection. All methods belong to the event loop."""

    def __init__(
        self,
        peer: str,
        find_address: Callable[[], Address | None],
        *,
        client_id: str,
        scratch: memoryview | None = None,
        in_flight_max: InFlight = IN_FLIGHT_MAX,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        asks_versions: bool = True,
        network: Network = NETWORK,
    ) -> None:
        """`peer` names it in errors. `find_address` says where it is now; None when its address is not known.

        `asks_versions`: each connection begins as one between nodes, with the question which versions the peer serves.
        Without it every call must name a version that the peer knows.
        """
        self._peer = peer
        self._find_address = find_address
        self._client_id = client_id
        self._scratch = memoryview(bytearray(SCRATCH_BYTES)) if scratch is None else scratch
        self._in_flight_max = in_flight_max
        self._network = network
        self._connect_timeout_s = connect_timeout_s
        self._asks_versions = asks_versions
        self._connection: ClientConnection | None = None
        self._address: Address | None = None
        """Where `_connection` leads."""
        self._connecting: asyncio.Future[ClientConnection] | None = None
        self._backoff = Backoff()
        self._is_closed = False

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def in_flight_requests(self) -> int:
        return 0 if self._connection is None else len(self._connection.conversation)

    # -- calling -----------------------------------------------------------------------------------------------------

    async def call(
        self, request: Message, answer: type[M], *, version: int | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> M:
        """Sends the request in the given version, or the newest that both know; returns the response, an `answer`."""
        assert answer is expected_answer(request), f"{answer.__name__} answers no {type(request).__name__}"
        api_key = request.API_KEY
        assert api_key is not None
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        connection = self._ready_connection() or await self._connect(timeout_s)
        if version is None:
            versions = connection.versions
            version = schema_versions(api_key)[1] if versions is None else versions.newest(api_key)
        frame = await self._send(connection, api_key, version, request.encode(version), deadline_s, timeout_s)
        self._backoff.answered()
        return decode_answer(self._peer, answer, frame, version)

    async def call_encoded(
        self, api_key: int, version: int, body: bytes | bytearray, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Frame:
        """The same with a body that is encoded already: the answer is a buffer and where the body begins in it."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        connection = self._ready_connection() or await self._connect(timeout_s)
        frame = await self._send(connection, api_key, version, body, deadline_s, timeout_s)
        self._backoff.answered()
        return frame

    def _send(
        self,
        connection: ClientConnection,
        api_key: int,
        version: int,
        body: bytes | bytearray,
        deadline_s: float,
        timeout_s: float,
    ) -> asyncio.Future[Frame]:
        if connection.versions is not None:
            connection.versions.require(api_key, version)
        under_way = connection.conversation
        requests_max, bytes_max = self._in_flight_max
        if len(under_way) >= requests_max or (under_way and under_way.in_flight_bytes + len(body) > bytes_max):
            raise PeerBusy(f"{self._peer}: {len(under_way)} requests are under way already")
        return connection.send(api_key, version, body, deadline_s, timeout_s)

    # -- the connection ----------------------------------------------------------------------------------------------

    def _ready_connection(self) -> ClientConnection | None:
        """The open connection, unless the peer has moved."""
        if self._is_closed:
            raise PeerUnreachable(f"{self._peer}: this node is stopping")
        connection = self._connection
        if connection is not None and self._find_address() != self._address:
            self._drop("it has moved to another address")
            self._backoff.forget()
            return None
        return connection

    async def _connect(self, timeout_s: float) -> ClientConnection:
        connecting = self._connecting
        if connecting is None:
            if self._backoff.is_resting(asyncio.get_running_loop().time()):
                raise PeerUnreachable(f"{self._peer}: {self._backoff.reason}")
            connecting = self._connecting = asyncio.ensure_future(self._open())
            connecting.add_done_callback(_retrieve)
        try:
            async with asyncio.timeout(timeout_s):
                # Shielded: others may be waiting for the same connection.
                connection = await asyncio.shield(connecting)
        except TimeoutError:
            raise RpcTimedOut(f"{self._peer} could not be reached within {timeout_s:g} s") from None
        if connection is not self._connection:
            raise PeerUnreachable(f"{self._peer}: the connection was closed")
        return connection

    async def _open(self) -> ClientConnection:
        try:
            address = self._find_address()
            if address is None:
                raise PeerUnreachable(f"{self._peer}: its address is not known")
            connection = await self._open_at(address)
            if self._is_closed or connection.is_lost:
                reason = "this node is stopping" if self._is_closed else "it closed the connection at once"
                connection.abort(reason)
                raise PeerUnreachable(f"{self._peer}: {reason}")
        except RpcError as failure:
            self._failed(str(failure).removeprefix(f"{self._peer}: "))
            raise
        finally:
            self._connecting = None
        self._connection, self._address = connection, address
        return connection

    async def _open_at(self, address: Address) -> ClientConnection:
        """A connection that is ready for requests."""
        connection = await self._dial(address)
        if not self._asks_versions:
            return connection
        try:
            await connection.shake_hands(begin_handshake(self._peer, NODE_SOFTWARE_NAME), HANDSHAKE_TIMEOUT_S)
        except PeerUnreachable:
            # A node of version 0.1 that is starting answers the quorum's requests and closes for any other.
            connection = await self._dial(address)
            connection.versions = PeerVersions.of_silent_node(self._peer)
        except RpcTimedOut as failure:
            # Nothing was asked for yet: a call may try again without doubt.
            raise PeerUnreachable(str(failure)) from None
        except BaseException:
            connection.abort("the connection was given up")
            raise
        return connection

    async def _dial(self, address: Address) -> ClientConnection:
        """A connection without a word said on it. TLS belongs here."""
        host, port = address
        connection = ClientConnection(self._peer, self._client_id, self._scratch, self._lost)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._network.connect(lambda: connection, host, port)
        except (OSError, TimeoutError) as error:
            reason = str(error) or f"no connection within {self._connect_timeout_s:g} s"
            raise PeerUnreachable(f"{self._peer} cannot be reached at {host}:{port}: {reason}") from None
        return connection

    def _failed(self, reason: str) -> None:
        self._backoff.failed(reason, asyncio.get_running_loop().time(), self._network.draw_share())

    def _lost(self, connection: ClientConnection, reason: str, had_requests: bool) -> None:
        if connection is not self._connection:
            return
        self._connection = self._address = None
        # A connection that never carried an answer was as good as none.
        if had_requests or self._backoff.has_failed:
            self._failed(reason)

    def _drop(self, reason: str) -> None:
        """Closes the connection for a reason of this end, which is no failure of the peer."""
        connection, self._connection, self._address = self._connection, None, None
        if connection is not None:
            connection.abort(reason)

    def hang_up(self) -> None:
        """Ends what is under way: it fails as if the connection had broken. The next call connects at once."""
        self._drop("the request was given up")

    def close(self) -> None:
        """Everything under way fails now, and so does every later call."""
        self._is_closed = True
        self._drop("this node is stopping")
        if self._connecting is not None:
            self._connecting.cancel()


def _retrieve(connecting: asyncio.Future[ClientConnection]) -> None:
    """A connection that no call waits for any more may fail in silence."""
    if not connecting.cancelled():
        connecting.exception()
