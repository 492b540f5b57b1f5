"""What one connection may take of the node's memory and time before others have their turn."""

import asyncio
import socket

import pytest
from tests.unit.net.serving import frame, read_frame, run_scenario, serving, wait_until

from tidelog.model import limits
from tidelog.net.connection import Connection
from tidelog.net.reply import PendingReply, Reply

pytestmark = pytest.mark.usefixtures("loop_kind")


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
        async with serving(dispatch, send_buffer_bytes=65_536) as (listener, connect):
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
            assert listener.shared.budget.used_bytes == 0

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
            few = limits.REPLY_BYTES_PER_TURN_MAX // len(answer)
            await wait_until(lambda: started >= few)
            # More would be answered now.
            await asyncio.sleep(0.05)
            assert started == few
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
            assert listener.shared.budget.used_bytes == 0

    run_scenario(run)


async def read_all(reader: asyncio.StreamReader, byte_count: int) -> None:
    while byte_count > 0:
        byte_count -= len(await reader.read(min(byte_count, 1 << 20)))
