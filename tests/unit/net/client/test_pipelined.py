"""Calls between nodes: answers, pipelining, bounds, and every way a peer can fail."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from struct import pack, unpack

import pytest
from tests.waiting import eventually

from tidelog.net.client.errors import BadAnswer, PeerBusy, PeerUnreachable, RpcTimedOut, UnsupportedByPeer
from tidelog.net.client.pipelined import IN_FLIGHT_MAX, RpcClient
from tidelog.net.client.pool import RpcPool
from tidelog.node.event_loop import new_event_loop
from tidelog.protocol.generated.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.private_apis import RAFT_API_KEY
from tidelog.testing.broker import AsyncBroker

pytestmark = pytest.mark.anyio

Answer = Callable[[int, asyncio.StreamWriter], Awaitable[None]]
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Peer:
    """A listener that answers each request by a function of its correlation id."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.connections = 0
        self.seen: list[int] = []

    async def __aenter__(self) -> Peer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]
        self._writers: list[asyncio.StreamWriter] = []
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                size = unpack(">i", await reader.readexactly(4))[0]
                frame = await reader.readexactly(size)
                correlation_id = unpack(">i", frame[4:8])[0]
                self.seen.append(correlation_id)
                await self._answer(correlation_id, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def client(self, **options: object) -> RpcClient:
        """Without a handshake, unless the options say so: the peers here answer nothing but heartbeats."""
        return RpcClient("node 2", lambda: self.address, client_id="node-1", **{"asks_versions": False, **options})  # type: ignore[arg-type]


def heartbeat_response(correlation_id: int, error_code: int = 0) -> bytes:
    body = HeartbeatResponse(error_code=error_code).encode(4)
    return pack(">iix", len(body) + 5, correlation_id) + body


async def answer_at_once(correlation_id: int, writer: asyncio.StreamWriter) -> None:
    writer.write(heartbeat_response(correlation_id, correlation_id))


async def stay_silent(correlation_id: int, writer: asyncio.StreamWriter) -> None:
    pass


async def heartbeat(client: RpcClient, timeout_s: float = 20) -> HeartbeatResponse:
    return await client.call(HEARTBEAT, HeartbeatResponse, timeout_s=timeout_s)


async def test_a_node_answers_a_node(tmp_path: Path) -> None:
    async with AsyncBroker(data=tmp_path) as broker:
        host, port = broker.bootstrap_servers.split(":")
        pool = RpcPool(lambda node_id: (host, int(port)), client_id="node-9")
        request = ApiVersionsRequest(client_software_name="tidelog", client_software_version="1")
        answers = await asyncio.gather(
            *(pool.client(1, purpose).call(request, ApiVersionsResponse) for purpose in ("fetch", "control", "fetch"))
        )
        assert all(answer.error_code == 0 and answer.api_keys for answer in answers)
        assert pool.client(1, "fetch") is not pool.client(1, "control")
        pool.close()


async def test_calls_are_pipelined_over_one_connection_and_matched_by_correlation_id() -> None:
    held: list[tuple[int, asyncio.StreamWriter]] = []

    async def answer_in_reverse(correlation_id: int, writer: asyncio.StreamWriter) -> None:
        held.append((correlation_id, writer))
        if len(held) == 5:
            for held_id, held_writer in reversed(held):
                await answer_at_once(held_id, held_writer)

    async with Peer(answer_in_reverse) as peer:
        client = peer.client()
        answers = await asyncio.gather(*(heartbeat(client) for _ in range(5)))
        assert sorted(answer.error_code for answer in answers) == peer.seen
        assert peer.connections == 1
        assert client.in_flight_requests == 0
        client.close()


async def test_an_answer_that_does_not_come_is_an_error_and_the_next_call_connects_anew() -> None:
    silent = False

    async def answer(correlation_id: int, writer: asyncio.StreamWriter) -> None:
        if not silent:
            await answer_at_once(correlation_id, writer)

    async with Peer(answer) as peer:
        client = peer.client()
        # The connection stands: what runs out is the time for an answer, not that for a connection.
        await heartbeat(client)
        silent = True
        slow, quick = await asyncio.gather(heartbeat(client, 30), heartbeat(client, 0.05), return_exceptions=True)
        assert isinstance(quick, RpcTimedOut)
        assert "node 2 did not answer Heartbeat within 0.05 s" in str(quick)
        assert isinstance(slow, PeerUnreachable)
        assert "another request to it timed out" in str(slow)
        silent = False
        await wait_until_answered(client)
        assert peer.connections == 2
        client.close()


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_what_was_given_up_does_not_arrive_later(loop: str) -> None:
    """A peer that hangs has taken part of a request; when it goes on, the rest must not come."""
    size = 8 << 20

    async def give_up_on(address: tuple[str, int]) -> None:
        client = RpcClient("node 2", lambda: address, client_id="node-1", asks_versions=False)
        with pytest.raises(RpcTimedOut):
            await client.call_encoded(HeartbeatRequest.API_KEY or 0, 4, bytes(size), timeout_s=0.3)
        client.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        with asyncio.Runner(loop_factory=lambda: new_event_loop(loop)) as runner:
            runner.run(give_up_on(server.getsockname()[:2]))
        hung, _ = server.accept()
    received = 0
    with hung:
        hung.settimeout(20)
        try:
            while data := hung.recv(1 << 20):
                received += len(data)
        except ConnectionResetError:
            assert received < size
        else:
            pytest.fail(f"the connection ended as if all had been sent; {received} bytes arrived")


async def wait_until_answered(client: RpcClient) -> None:
    async def is_answered() -> bool:
        try:
            await heartbeat(client)
        except PeerUnreachable:
            return False
        return True

    await eventually(is_answered, "an answer of the peer")


async def test_more_than_the_bound_under_way_is_refused_unsent() -> None:
    async with Peer(stay_silent) as peer:
        client = peer.client(in_flight_max=IN_FLIGHT_MAX._replace(requests=3))
        waiting = [asyncio.ensure_future(heartbeat(client)) for _ in range(3)]
        await eventually(lambda: client.in_flight_requests == 3, "3 requests under way")
        with pytest.raises(PeerBusy, match="3 requests are under way"):
            await heartbeat(client)
        client.close()
        failures = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(failure, PeerUnreachable) for failure in failures)


async def test_bytes_under_way_are_bounded_but_one_request_always_fits() -> None:
    async with Peer(stay_silent) as peer:
        client = peer.client(in_flight_max=IN_FLIGHT_MAX._replace(size_bytes=1))
        waiting = asyncio.ensure_future(heartbeat(client))
        await eventually(lambda: client.in_flight_requests == 1, "a request under way")
        with pytest.raises(PeerBusy):
            await heartbeat(client)
        client.close()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_peer_that_is_not_there_fails_at_once_until_the_back_off_has_passed() -> None:
    async with Peer(answer_at_once) as peer:
        address = peer.address
    asked = 0

    def find_address() -> tuple[str, int]:
        nonlocal asked
        asked += 1
        return address

    client = RpcClient("node 2", find_address, client_id="node-1")
    for _ in range(50):
        with pytest.raises(PeerUnreachable, match=r"node 2.*cannot be reached at"):
            await heartbeat(client)
    assert asked < 10
    client.close()


async def test_a_peer_without_an_address_is_unreachable() -> None:
    client = RpcClient("node 7", lambda: None, client_id="node-1")
    with pytest.raises(PeerUnreachable, match="node 7: its address is not known"):
        await heartbeat(client)


async def test_a_peer_that_moves_is_followed() -> None:
    async with Peer(answer_at_once) as old, Peer(answer_at_once) as new:
        where = old
        client = RpcClient("node 2", lambda: where.address, client_id="node-1", asks_versions=False)
        await heartbeat(client)
        where = new
        await heartbeat(client)
        assert (old.connections, new.connections) == (1, 1)
        client.close()


async def test_a_connection_that_breaks_fails_what_is_under_way() -> None:
    async def hang_up(correlation_id: int, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with Peer(hang_up) as peer:
        client = peer.client()
        with pytest.raises(PeerUnreachable, match="node 2"):
            await heartbeat(client)
        assert not client.is_connected
        client.close()


@pytest.mark.parametrize(
    "garbage",
    [
        pack(">i", 0x7FFFFFFF),
        pack(">i", -1),
        pack(">ii", 4, 999),
    ],
    ids=["too large", "negative size", "unknown correlation id"],
)
async def test_garbage_closes_the_connection(garbage: bytes) -> None:
    async def answer_garbage(correlation_id: int, writer: asyncio.StreamWriter) -> None:
        writer.write(garbage)

    async with Peer(answer_garbage) as peer:
        client = peer.client()
        with pytest.raises(PeerUnreachable, match="its answer could not be read"):
            await heartbeat(client)
        client.close()


async def test_a_response_that_cannot_be_decoded_is_a_bad_answer() -> None:
    async def answer_short(correlation_id: int, writer: asyncio.StreamWriter) -> None:
        writer.write(pack(">iixb", 6, correlation_id, 1))

    async with Peer(answer_short) as peer:
        client = peer.client()
        with pytest.raises(BadAnswer, match="node 2"):
            await heartbeat(client)
        assert client.is_connected
        client.close()


async def test_a_caller_that_goes_away_disturbs_nobody() -> None:
    release = asyncio.Event()

    async def answer_later(correlation_id: int, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await answer_at_once(correlation_id, writer)

    async with Peer(answer_later) as peer:
        client = peer.client()
        given_up = asyncio.ensure_future(heartbeat(client))
        kept = asyncio.ensure_future(heartbeat(client))
        await eventually(lambda: client.in_flight_requests == 2, "2 requests under way")
        given_up.cancel()
        release.set()
        assert (await kept).error_code == 2
        client.close()


async def test_a_call_can_be_given_up_and_the_next_connects_at_once() -> None:
    silent = True

    async def answer(correlation_id: int, writer: asyncio.StreamWriter) -> None:
        if not silent:
            await answer_at_once(correlation_id, writer)

    async with Peer(answer) as peer:
        client = peer.client()
        waiting = asyncio.ensure_future(heartbeat(client))
        await eventually(lambda: client.in_flight_requests == 1, "a request under way")
        silent = False
        client.hang_up()
        assert (await heartbeat(client)).error_code == 1
        assert peer.connections == 2
        with pytest.raises(PeerUnreachable, match="given up"):
            await waiting
        client.close()


async def test_a_closed_client_refuses() -> None:
    async with Peer(answer_at_once) as peer:
        client = peer.client()
        await heartbeat(client)
        client.close()
        with pytest.raises(PeerUnreachable, match="this node is stopping"):
            await heartbeat(client)


async def test_a_call_cancelled_in_the_moment_its_connection_opens_is_cancelled() -> None:
    """Otherwise a task that calls in a loop would go on after it was cancelled, and the stop of its node wait
    forever."""
    async with Peer(answer_at_once) as peer:
        client = peer.client()
        call = asyncio.ensure_future(heartbeat(client))
        await asyncio.sleep(0)
        connecting = client._connecting
        assert connecting is not None
        connecting.add_done_callback(lambda _: call.cancel())
        with pytest.raises(asyncio.CancelledError):
            await call
        client.close()


class Node:
    """A peer that answers heartbeats and, unless it is starting, ApiVersions."""

    def __init__(self, heartbeat_version_max: int) -> None:
        self.heartbeat_version_max = heartbeat_version_max
        self.closes_for: int | None = None
        """The API key that it closes the connection for."""
        self.seen: list[tuple[int, int]] = []
        """API keys and versions."""

    async def __aenter__(self) -> Node:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(unpack(">i", await reader.readexactly(4))[0])
                api_key, version, correlation_id = unpack(">hhi", frame[:8])
                self.seen.append((api_key, version))
                if api_key == self.closes_for:
                    break
                if api_key == HEARTBEAT.API_KEY:
                    header, body = b"\0" if version == 4 else b"", HeartbeatResponse(error_code=7).encode(version)
                else:
                    key = ApiVersion(api_key=12, min_version=0, max_version=self.heartbeat_version_max)
                    header, body = b"", ApiVersionsResponse(api_keys=[key]).encode(version)
                writer.write(pack(">ii", 4 + len(header) + len(body), correlation_id) + header + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def client(self) -> RpcClient:
        return RpcClient("node 2", lambda: self.address, client_id="node-1")


async def test_a_connection_learns_what_the_peer_serves_and_the_next_one_learns_it_again() -> None:
    async with Node(2) as node:
        client = node.client()
        assert [(await heartbeat(client)).error_code for _ in range(2)] == [7, 7]
        assert node.seen == [(18, 3), (12, 2), (12, 2)]
        node.heartbeat_version_max = 9
        client.hang_up()
        await heartbeat(client)
        assert node.seen[3:] == [(18, 3), (12, 4)]
        client.close()


async def test_a_version_that_the_peer_does_not_serve_is_not_sent() -> None:
    async with Node(2) as node:
        client = node.client()
        with pytest.raises(UnsupportedByPeer, match="node 2 supports versions 0 to 2 of Heartbeat, not version 3"):
            await client.call(HEARTBEAT, HeartbeatResponse, version=3)
        assert node.seen == [(18, 3)]
        assert client.is_connected
        client.close()


async def test_a_peer_that_closes_for_the_handshake_is_called_without_one() -> None:
    """A node of version 0.1 that starts does, and cannot start without its quorum."""
    async with Node(2) as node:
        node.closes_for = 18
        client = node.client()
        await client.call_encoded(RAFT_API_KEY, 0, b"")
        assert node.seen == [(18, 3), (RAFT_API_KEY, 0)]
        client.close()


async def test_a_client_that_is_closed_during_the_handshake_leaves_no_connection() -> None:
    async with Peer(stay_silent) as peer:
        client = peer.client(asks_versions=True)
        call = asyncio.ensure_future(heartbeat(client))
        await eventually(lambda: peer.seen, "the first request")
        client.close()
        with pytest.raises((PeerUnreachable, asyncio.CancelledError)):
            await call
        assert not client.is_connected
