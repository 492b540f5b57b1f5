"""TCP as processes see it, on a network that loses, delays and doubles.

A connection keeps the order of what is written to it: what is lost is sent again later, and everything behind it waits.
A node that is cut off hears nothing. A request that the network doubles comes once more over a connection of its own,
at any later time, as from a client or a proxy that tried again: its answer goes nowhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.simulation.cluster.process import Process
from tests.simulation.network import Network
from tests.simulation.world import World

PORT_BASE = 9000
"""Where a host listens: its number is added."""
RESEND_MS = 60.0
RESENDS_MAX = 6
GHOST_MS = 1000.0
GHOST_LATE_MS = 1500.0


class SimulatedSocket(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, sockets: Sockets, process: Process, peer_host: int) -> None:
        super().__init__()
        self.process = process
        self.peer: SimulatedSocket | None = None
        self.is_open = True
        self._sockets = sockets
        self._world = sockets.world
        self._peer_host = peer_host
        self._protocol: asyncio.BufferedProtocol | None = None
        self._sent = 0
        self._expected = 0
        self._early: dict[int, bytes | None] = {}
        self._unread: list[bytes | None] = []
        self._is_reading = True
        self._is_aborted = False
        process.sockets[self] = None

    def begin(self, protocol: asyncio.BufferedProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    # -- asyncio.Transport ---------------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (f"10.0.0.{self._peer_host}", 40_000) if name == "peername" else default

    def write(self, data: Any) -> None:
        if self.is_open and data:
            self._transmit(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is always room."""

    def get_write_buffer_size(self) -> int:
        """Never none, so that no sender sends files past this object."""
        return 1

    def is_closing(self) -> bool:
        return not self.is_open

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._read_soon()

    def close(self) -> None:
        if self.is_open:
            self._transmit(None)
            self._end()

    def abort(self) -> None:
        """Nothing is sent again afterwards: `RpcClient` sees to that with its real sockets."""
        if self.is_open:
            self._is_aborted = True
            self._tell_reset()
            self._end()

    # -- the wire ------------------------------------------------------------------------------------------------------

    def _transmit(self, data: bytes | None) -> None:
        number, self._sent = self._sent, self._sent + 1
        self._try(number, data, 0)

    def _try(self, number: int, data: bytes | None, attempt: int) -> None:
        peer = self.peer
        assert peer is not None, "connected"
        arrivals = 0

        def arrive() -> None:
            nonlocal arrivals
            arrivals += 1
            if arrivals == 1:
                peer._arrived(number, data)
            elif data is not None and peer._is_accepted and self.process.is_repeated:
                self._sockets.repeat(peer, data)

        def look() -> None:
            if peer._expected > number or not peer.is_open or self._is_aborted:
                return
            if attempt < RESENDS_MAX:
                self._try(number, data, attempt + 1)
            else:
                self._reset()

        self._sockets.network.send(self.process.host, self._peer_host, arrive)
        self._world.after(RESEND_MS * 2 ** min(attempt, 3), look)

    def _arrived(self, number: int, data: bytes | None) -> None:
        if not self.is_open:
            if self._sockets.is_host_up(self.process.host):
                self._tell_reset()
            return
        if number >= self._expected:
            self._early[number] = data
        while self._expected in self._early:
            self._unread.append(self._early.pop(self._expected))
            self._expected += 1
        self._read_soon()

    def _read_soon(self) -> None:
        if self._unread and self._is_reading:
            asyncio.get_running_loop().call_soon(self._read, context=self.process.context.copy())

    def _read(self) -> None:
        while self._unread and self._is_reading and self.is_open:
            data = self._unread.pop(0)
            if data is None:
                self._end()
                return
            self.feed(data)

    def feed(self, data: bytes) -> None:
        protocol = self._protocol
        assert protocol is not None, "begun"
        view = memoryview(data)
        while view and self.is_open:
            buffer = protocol.get_buffer(len(view))
            size = min(len(buffer), len(view))
            memoryview(buffer)[:size] = view[:size]
            view = view[size:]
            protocol.buffer_updated(size)

    _is_accepted = False

    # -- the end -------------------------------------------------------------------------------------------------------

    def _tell_reset(self) -> None:
        peer = self.peer
        if peer is not None:
            self._sockets.network.send(self.process.host, self._peer_host, peer._reset)

    def _reset(self) -> None:
        if self.is_open:
            asyncio.get_running_loop().call_soon(self._end, context=self.process.context.copy())

    def _end(self) -> None:
        if self.is_open:
            self.is_open = False
            self.process.sockets.pop(self, None)
            if self._protocol is not None:
                protocol = self._protocol
                asyncio.get_running_loop().call_soon(
                    protocol.connection_lost, None, context=self.process.context.copy()
                )

    def die(self, *, tells_peer: bool) -> None:
        """With its process: this end does not hear of it."""
        if tells_peer:
            self._tell_reset()
        self.is_open = False


class GhostSocket(SimulatedSocket):
    """The end of a connection whose other end is gone already."""

    def _transmit(self, data: bytes | None) -> None:
        pass

    def _tell_reset(self) -> None:
        pass


class Acceptor:
    """One address of a process."""

    def __init__(
        self, sockets: Sockets, process: Process, new_connection: Callable[[None], asyncio.BufferedProtocol]
    ) -> None:
        self.new_connection = new_connection
        self.process = process
        self._sockets = sockets
        self._port = 0

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        self._port = port
        return host, port

    def start(self) -> None:
        self.process.world.note(self.process, "listens")
        self._sockets.acceptors[self._port] = self

    def close(self) -> None:
        if self._sockets.acceptors.get(self._port) is self:
            del self._sockets.acceptors[self._port]


class Sockets:
    def __init__(self, world: World, network: Network, is_host_up: Callable[[int], bool]) -> None:
        """`is_host_up`: whether there is a kernel that refuses connections to processes that are not there."""
        self.world = world
        self.network = network
        self.is_host_up = is_host_up
        self.acceptors: dict[int, Acceptor] = {}

    async def connect(
        self, process: Process, protocol_factory: Callable[[], asyncio.BufferedProtocol], port: int
    ) -> tuple[SimulatedSocket, asyncio.BufferedProtocol]:
        answer: asyncio.Future[SimulatedSocket | None] = asyncio.get_running_loop().create_future()
        host = port - PORT_BASE
        is_accepted = False

        def arrive() -> None:
            nonlocal is_accepted
            if is_accepted:
                return
            acceptor = self.acceptors.get(port)
            ours: SimulatedSocket | None = None
            if acceptor is not None and acceptor.process.is_alive:
                is_accepted = True
                ours = SimulatedSocket(self, process, host)
                theirs = self._accept(acceptor, SimulatedSocket(self, acceptor.process, process.host))
                ours.peer, theirs.peer = theirs, ours
            elif not self.is_host_up(host):
                return
            self.network.send(host, process.host, lambda: answered(ours))

        def answered(ours: SimulatedSocket | None) -> None:
            if not answer.done():
                answer.set_result(ours)

        def attempt(number: int) -> None:
            if not answer.done() and process.is_alive and number < RESENDS_MAX:
                self.network.send(process.host, host, arrive)
                self.world.after(RESEND_MS * 2**number, lambda: attempt(number + 1))

        attempt(0)
        ours = await answer
        if ours is None:
            raise ConnectionRefusedError("nobody listens there")
        protocol = protocol_factory()
        ours.begin(protocol)
        return ours, protocol

    def _accept(self, acceptor: Acceptor, socket: SimulatedSocket) -> SimulatedSocket:
        socket._is_accepted = True

        def begin() -> None:
            if socket.is_open:
                socket.begin(acceptor.new_connection(None))

        asyncio.get_running_loop().call_soon(begin, context=acceptor.process.context.copy())
        return socket

    def repeat(self, socket: SimulatedSocket, request: bytes) -> None:
        """The request comes again, over a connection of its own, perhaps much later."""
        port = PORT_BASE + socket.process.host
        late_ms = self.world.random.choice((0.0, self.world.random.uniform(0.0, GHOST_LATE_MS)))

        def come_again() -> None:
            acceptor = self.acceptors.get(port)
            if acceptor is None or not acceptor.process.is_alive:
                return
            ghost = GhostSocket(self, acceptor.process, socket._peer_host)
            self._accept(acceptor, ghost)
            asyncio.get_running_loop().call_soon(ghost.feed, request, context=acceptor.process.context.copy())
            self.world.after(GHOST_MS, ghost._reset)

        self.world.after(late_ms, come_again)
