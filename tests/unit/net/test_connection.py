"""Connections over real sockets: order of answers, back pressure in both directions, half-closed peers."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.net.serving import echo, frame, read_frame, run_scenario, serving, wait_until

from tidelog.net.connection import Connection
from tidelog.net.reply import Buffers, CloseConnection, PendingReply, Reply
from tidelog.net.transport_sender import WRITE_CHUNK_BYTES
from tidelog.storage.region import LogRegion
from tidelog.storage.segment_file import READ, SegmentFile

pytestmark = pytest.mark.usefixtures("loop_kind")


class CountedRegion:
    """A region that knows how much of it was read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.loaded_bytes = 0

    def load(self, start: int = 0, length: int | None = None) -> bytes:
        length = self.size - start if length is None else length
        self.loaded_bytes += length
        return bytes([start % 251]) * length


def region_of(path: Path, position: int, size: int) -> LogRegion:
    return LogRegion(SegmentFile(str(path), READ), position, size, 0)


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
            assert listener.shared.places.lent_count == 0

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
            await wait_until(lambda: listener.shared.places.lent_count == 1)
            writer.close()
            await wait_until(lambda: listener.shared.places.lent_count == 0)

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
            assert listener.shared.budget.used_bytes == 0

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
            assert listener.shared.budget.is_spent
            for _ in range(20):
                second.write(frame(b"y" * 100_000))
            await wait_until(lambda: listener.shared.budget.used_bytes > 1_000_000)
            await asyncio.sleep(0.1)
            assert listener.shared.budget.used_bytes < 1_700_000, "the second connection must not be read on"
            assert listener.shared.metrics.reads_paused == 2
            pending[0].complete([b"done"])
            await wait_until(lambda: len(pending) > 10)
            for number in range(1, 21):
                await wait_until(lambda number=number: len(pending) > number)  # type: ignore[misc]
                pending[number].complete([b"answer"])
                assert await read_frame(reader) == b"answer"
            assert listener.shared.budget.used_bytes == 0

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
            assert listener.shared.metrics.connections_closed["oversized"] == 1
            await wait_until(lambda: listener.shared.budget.used_bytes == 0)

    run_scenario(run)


def test_a_refused_request_closes_the_connection_with_its_reason() -> None:
    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        raise CloseConnection("malformed", "for the test")

    async def run() -> None:
        async with serving(dispatch) as (listener, connect):
            reader, writer = await connect()
            writer.write(frame(b"anything"))
            assert await reader.read() == b""
            await wait_until(lambda: listener.shared.metrics.connections_closed["malformed"] == 1)

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


def test_a_muted_connection_is_not_read_and_goes_on_when_it_is_unmuted() -> None:
    started: list[bytes] = []
    pending = PendingReply(overlaps=True)

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        started.append(data[start:])
        if data[start:] == b"mute me now":
            connection.mute()
            return pending
        return data[start:]

    async def run() -> None:
        async with serving(dispatch) as (listener, connect):
            reader, writer = await connect()
            writer.write(frame(b"mute me now") + frame(b"queued one"))
            await wait_until(lambda: listener.shared.metrics.reads_paused == 1)
            held_bytes = listener.shared.budget.used_bytes
            writer.write(frame(b"left in the socket"))
            pending.complete([b"answered"])
            assert await read_frame(reader) == b"answered", "it was started already"
            await asyncio.sleep(0.02)
            assert started == [b"mute me now"]
            assert listener.shared.budget.used_bytes < held_bytes, "nothing more was read"
            [connection] = listener.connections
            connection.unmute()
            assert [await read_frame(reader) for _ in range(2)] == [b"queued one", b"left in the socket"]
            assert listener.shared.budget.used_bytes == 0

    run_scenario(run)


def test_a_request_may_mute_its_connection_and_unmute_it_again() -> None:
    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        connection.mute()
        connection.unmute()
        return data[start:]

    async def run() -> None:
        async with serving(dispatch) as (_, connect):
            reader, writer = await connect()
            for content in (b"request 1", b"request 2"):
                writer.write(frame(content))
                assert await read_frame(reader) == content

    run_scenario(run)
