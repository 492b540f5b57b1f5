"""Connections over real sockets: order of answers, back pressure in both directions, half-closed peers."""

import asyncio
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tidelog.model import limits
from tidelog.net.budget import ByteBudget
from tidelog.net.connection import WRITE_CHUNK_BYTES, Connection
from tidelog.net.listener import Listener, ListenError
from tidelog.net.reply import Buffers, CloseConnection, PendingReply, Reply
from tidelog.node.event_loop import new_event_loop
from tidelog.storage.files import OpenFile
from tidelog.storage.region import LogRegion
from tidelog.telemetry.metrics import NodeMetrics


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return await reader.readexactly(size)


async def wait_until(condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        await asyncio.sleep(0.005)


@pytest.fixture(autouse=True, params=["uvloop", "asyncio"])
def loop_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scenario runs on both event loops: nothing may depend on which it is."""
    monkeypatch.setitem(CHOSEN, "loop", request.param)


CHOSEN = {"loop": "auto"}


def run_scenario(scenario: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=lambda: new_event_loop(CHOSEN["loop"])) as runner:
        runner.run(asyncio.wait_for(scenario(), 30))


class CountedRegion:
    """A region that knows how much of it was read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.loaded_bytes = 0

    def load(self, start: int = 0, length: int | None = None) -> bytes:
        length = self.size - start if length is None else length
        self.loaded_bytes += length
        return bytes([start % 251]) * length


@asynccontextmanager
async def serving(
    dispatch: Callable[[Connection, Any, int], Reply], budget_bytes: int = 1 << 20
) -> AsyncIterator[tuple[Listener, Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]]]:
    listener = Listener("PLAINTEXT", NodeMetrics(), budget=ByteBudget(budget_bytes), monotonic_s=time.monotonic)
    await listener.bind("127.0.0.1", 0)
    await listener.serve(dispatch)
    writers: list[asyncio.StreamWriter] = []

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 26)
        writers.append(writer)
        return reader, writer

    try:
        yield listener, connect
    finally:
        listener.stop_accepting()
        for writer in writers:
            writer.close()
        listener.close_connections()
        await wait_until(lambda: listener.connection_count == 0)


def region_of(path: Path, position: int, size: int) -> LogRegion:
    return LogRegion(OpenFile(str(path), os.O_RDONLY), position, size, 0)


def echo(connection: Connection, data: bytes, start: int) -> Reply:
    return [data[start:]]


def test_pipelined_requests_are_answered_in_order() -> None:
    async def run() -> None:
        async with serving(echo) as (_, connect):
            reader, writer = await connect()
            contents = [f"request {number:04}".encode() for number in range(500)]
            writer.write(b"".join(map(frame, contents)))
            assert [await read_frame(reader) for _ in contents] == contents

    run_scenario(run)


def test_large_requests_do_not_overwrite_what_is_still_looked_at() -> None:
    async def run() -> None:
        async with serving(echo, 1 << 24) as (listener, connect):
            reader, writer = await connect()
            contents = [bytes([number]) * 500_000 for number in range(8)]
            writer.write(b"".join(map(frame, contents)))
            assert [await read_frame(reader) for _ in contents] == contents, "answers are views of the requests"
            assert listener.places.lent_count == 0

    run_scenario(run)


def test_the_largest_request_fits_a_budget_made_for_it() -> None:
    largest = 100_000

    async def run() -> None:
        budget = ByteBudget(largest + limits.FRAME_SIZE_BYTES + 1)
        listener = Listener(
            "PLAINTEXT", NodeMetrics(), budget=budget, frame_bytes_max=largest, monotonic_s=time.monotonic
        )
        await listener.bind("127.0.0.1", 0)
        await listener.serve(echo)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(frame(b"x" * largest) * 2)
            for _ in range(2):
                assert await read_frame(reader) == b"x" * largest
            writer.close()
        finally:
            listener.stop_accepting()
            listener.close_connections()
            await wait_until(lambda: listener.connection_count == 0)

    run_scenario(run)


def test_large_requests_share_one_place() -> None:
    places = set()

    def dispatch(connection: Connection, data: Any, start: int) -> Reply:
        places.add(id(data.obj))
        return [bytes(data[start : start + 10])]

    async def run() -> None:
        async with serving(dispatch, 1 << 24) as (_, connect):
            reader, writer = await connect()
            for number in range(5):
                writer.write(frame(bytes([number]) * 500_000))
                assert await read_frame(reader) == bytes([number]) * 10
            assert len(places) == 1

    run_scenario(run)


def test_a_request_cut_short_gives_its_place_back() -> None:
    async def run() -> None:
        async with serving(echo, 1 << 24) as (listener, connect):
            _, writer = await connect()
            writer.write(frame(b"x" * 500_000)[:400_000])
            await wait_until(lambda: listener.places.lent_count == 1)
            writer.close()
            await wait_until(lambda: listener.places.lent_count == 0)

    run_scenario(run)


def test_a_waiting_request_holds_back_later_ones_unless_it_overlaps() -> None:
    started: list[bytes] = []
    pending: dict[bytes, PendingReply] = {}

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        content = data[start:]
        started.append(content)
        if content.startswith(b"wait"):
            pending[content] = PendingReply(overlaps=content.endswith(b"overlap"))
            return pending[content]
        return [content]

    async def run() -> None:
        async with serving(dispatch) as (_, connect):
            reader, writer = await connect()
            writer.write(frame(b"wait overlap") + frame(b"wait alone") + frame(b"quick one"))
            await wait_until(lambda: len(started) == 2)
            assert started == [b"wait overlap", b"wait alone"]
            pending[b"wait alone"].complete([b"second"])
            await asyncio.sleep(0)
            pending[b"wait overlap"].complete([b"first!!!"])
            assert [await read_frame(reader) for _ in range(3)] == [b"first!!!", b"second", b"quick one"]

    run_scenario(run)


def test_a_request_that_completes_an_earlier_one_is_answered_before_what_follows() -> None:
    pending: list[PendingReply] = []

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        content = data[start:]
        if content == b"wait for me":
            pending.append(PendingReply(overlaps=True))
            return pending[0]
        if content == b"completer":
            pending[0].complete([b"completed"])
        return [content]

    async def run() -> None:
        async with serving(dispatch) as (_, connect):
            reader, writer = await connect()
            writer.write(frame(b"wait for me") + frame(b"completer") + frame(b"follower"))
            assert [await read_frame(reader) for _ in range(3)] == [b"completed", b"completer", b"follower"]

    run_scenario(run)


def test_small_requests_with_long_answers_wait_for_a_peer_that_does_not_read() -> None:
    answer = b"x" * 65_536
    requests = 2_000
    started = 0

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        nonlocal started
        started += 1
        return [answer]

    async def run() -> None:
        async with serving(dispatch) as (listener, connect):
            reader, writer = await connect()
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(frame(b"12345678") * requests)
            await wait_until(lambda: started > 0)
            await asyncio.sleep(0.2)
            assert started * len(answer) < 16 << 20, "what the kernel takes, and little more"
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(requests):
                assert len(await read_frame(reader)) == len(answer)
            assert listener.budget.used_bytes == 0

    run_scenario(run)


def test_answers_that_wait_behind_another_are_few() -> None:
    pending = PendingReply(overlaps=True)
    answer = b"x" * 65_536
    requests = 200
    started = 0

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        nonlocal started
        if data[start:] == b"wait for me":
            return pending
        started += 1
        return [answer]

    async def run() -> None:
        async with serving(dispatch) as (_, connect):
            reader, writer = await connect()
            writer.write(frame(b"wait for me") + frame(b"12345678") * requests)
            await wait_until(lambda: started > 0)
            await asyncio.sleep(0.05)
            assert started == limits.REPLY_BYTES_PER_TURN_MAX // len(answer)
            pending.complete([b"here I am"])
            assert await read_frame(reader) == b"here I am"
            for _ in range(requests):
                assert len(await read_frame(reader)) == len(answer)

    run_scenario(run)


@pytest.mark.parametrize("answer_bytes", [1, limits.REPLY_BYTES_PER_TURN_MAX])
def test_others_are_served_before_the_many_requests_of_one(answer_bytes: int) -> None:
    started: list[bytes] = []

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        started.append(data[start:])
        return [b"x" * answer_bytes]

    async def run() -> None:
        async with serving(dispatch) as (listener, connect):
            reader, greedy = await connect()
            other_reader, other = await connect()
            greedy.write(frame(b"one of many") * 200)
            greedy.write_eof()
            other.write(frame(b"only one"))
            await asyncio.gather(read_frame(other_reader), read_all(reader, 200 * (answer_bytes + 4)))
            assert b"only one" in started[: 2 * limits.REQUESTS_PER_TURN_MAX + 1]
            assert len(started) == 201
            assert await reader.read() == b"", "closed when all was answered"
            assert listener.budget.used_bytes == 0

    run_scenario(run)


async def read_all(reader: asyncio.StreamReader, byte_count: int) -> None:
    while byte_count > 0:
        byte_count -= len(await reader.read(min(byte_count, 1 << 20)))


def test_a_peer_that_does_not_read_holds_little_memory_and_gets_everything_later() -> None:
    region = CountedRegion(32 * WRITE_CHUNK_BYTES * 4)

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        return [b"head", region]

    async def run() -> None:
        async with serving(dispatch) as (_, connect):
            reader, writer = await connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(frame(b"gimme all") * 1)
            await wait_until(lambda: region.loaded_bytes > 0)
            await asyncio.sleep(0.2)
            assert region.loaded_bytes < region.size / 2
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            answer = await read_frame(reader)
            assert len(answer) == region.size + 4
            assert answer[:4] == b"head"

    run_scenario(run)


@pytest.mark.parametrize("is_slow", [False, True])
def test_file_regions_arrive_whole_and_in_order(tmp_path: Path, is_slow: bool) -> None:
    content = os.urandom(9_000_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    spans = [(0, 10), (100, 40_000), (50_000, 8_000_000), (7, 31), (8_500_000, 33_000)]

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        if data[start:] == b"small one":
            return [b"small answer"]
        parts: Buffers = []
        for position, size in spans:
            parts += [b"<", region_of(path, position, size), b">"]
        return parts

    expected = b"".join(b"<" + content[position : position + size] + b">" for position, size in spans)

    async def run() -> None:
        async with serving(dispatch, budget_bytes=1 << 24) as (listener, connect):
            reader, writer = await connect()
            for _ in range(3):
                if is_slow:
                    writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(frame(b"large one") + frame(b"small one"))
                if is_slow:
                    await asyncio.sleep(0.05)
                    writer.transport.resume_reading()  # type: ignore[attr-defined]
                assert await read_frame(reader) == expected
                assert await read_frame(reader) == b"small answer"
            assert listener.budget.used_bytes == 0

    run_scenario(run)


def test_a_file_that_became_shorter_closes_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"x" * 50_000)

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        return [region_of(path, 0, 60_000)]

    async def run() -> None:
        async with serving(dispatch) as (_, connect):
            reader, writer = await connect()
            writer.write(frame(b"anything"))
            assert len(await reader.read()) <= 50_004

    run_scenario(run)


def test_reading_stops_when_the_node_holds_too_much_and_goes_on_later() -> None:
    pending: list[PendingReply] = []

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        pending.append(PendingReply(overlaps=True))
        return pending[-1]

    async def run() -> None:
        async with serving(dispatch, budget_bytes=1_000_000) as (listener, connect):
            _, first = await connect()
            reader, second = await connect()
            first.write(frame(b"x" * 999_996))
            await wait_until(lambda: len(pending) == 1)
            assert listener.budget.is_spent
            for _ in range(20):
                second.write(frame(b"y" * 100_000))
            await wait_until(lambda: listener.budget.used_bytes > 1_000_000)
            await asyncio.sleep(0.1)
            assert listener.budget.used_bytes < 1_700_000, "the second connection must not be read on"
            pending[0].complete([b"done"])
            await wait_until(lambda: len(pending) > 10)
            for number in range(1, 21):
                await wait_until(lambda number=number: len(pending) > number)  # type: ignore[misc]
                pending[number].complete([b"answer"])
                assert await read_frame(reader) == b"answer"
            assert listener.budget.used_bytes == 0

    run_scenario(run)


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff\xff1234", b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x01x"])
def test_garbage_closes_only_its_own_connection(garbage: bytes) -> None:
    async def run() -> None:
        async with serving(echo) as (listener, connect):
            good_reader, good = await connect()
            bad_reader, bad = await connect()
            bad.write(garbage)
            assert await bad_reader.read() == b""
            good.write(frame(b"still here"))
            assert await read_frame(good_reader) == b"still here"
            assert listener.metrics.connections_closed["oversized"] == 1
            await wait_until(lambda: listener.budget.used_bytes == 0)

    run_scenario(run)


def test_a_refused_request_closes_the_connection_with_its_reason() -> None:
    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        raise CloseConnection("malformed", "for the test")

    async def run() -> None:
        async with serving(dispatch) as (listener, connect):
            reader, writer = await connect()
            writer.write(frame(b"anything"))
            assert await reader.read() == b""
            await wait_until(lambda: listener.metrics.connections_closed["malformed"] == 1)

    run_scenario(run)


def test_a_half_closed_peer_still_gets_its_answer() -> None:
    pending: list[PendingReply] = []

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        pending.append(PendingReply())
        return pending[-1]

    async def run() -> None:
        async with serving(dispatch) as (_, connect):
            reader, writer = await connect()
            writer.write(frame(b"last words"))
            writer.write_eof()
            await wait_until(lambda: len(pending) == 1)
            await asyncio.sleep(0.02)
            pending[0].complete([b"farewell"])
            assert await read_frame(reader) == b"farewell"
            assert await reader.read() == b""

    run_scenario(run)


def test_a_taken_port_is_one_clear_line() -> None:
    async def run() -> None:
        async with serving(echo) as (listener, _):
            other = Listener("X", NodeMetrics(), budget=ByteBudget(1), monotonic_s=time.monotonic)
            with pytest.raises(ListenError, match=f"127.0.0.1:{listener.port}: the port is in use"):
                await other.bind("127.0.0.1", listener.port)

    run_scenario(run)


def test_connections_beyond_the_limits_are_closed() -> None:
    async def run() -> None:
        listener = Listener(
            "PLAINTEXT",
            NodeMetrics(),
            budget=ByteBudget(1 << 20),
            connections_max=3,
            connections_per_host_max=2,
            monotonic_s=time.monotonic,
        )
        await listener.bind("127.0.0.1", 0)
        await listener.serve(echo)
        try:
            first = await asyncio.open_connection("127.0.0.1", listener.port)
            second = await asyncio.open_connection("127.0.0.1", listener.port)
            third = await asyncio.open_connection("127.0.0.1", listener.port)
            assert await third[0].read() == b""
            first[1].close()
            await wait_until(lambda: listener.connection_count == 1)
            fourth = await asyncio.open_connection("127.0.0.1", listener.port)
            fourth[1].write(frame(b"let me in"))
            assert await read_frame(fourth[0]) == b"let me in"
            assert listener.metrics.connections_closed["limit"] == 1
            for _, writer in (second, third, fourth):
                writer.close()
        finally:
            listener.stop_accepting()
            listener.close_connections()
            await wait_until(lambda: listener.connection_count == 0)

    run_scenario(run)
