"""A listener over real sockets, and clients of it."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.waiting import eventually

from tidelog.net.connection import Connection
from tidelog.net.listener import Listener, ListenerSettings
from tidelog.net.reply import Reply
from tidelog.net.shared import SharedByListeners
from tidelog.node.event_loop import new_event_loop
from tidelog.telemetry.metrics import NodeMetrics


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return await reader.readexactly(size)


async def wait_until(condition: Callable[[], bool], timeout_s: float = 40.0) -> None:
    await eventually(condition, "a state of the listener", timeout_s, interval_s=0.005)


CHOSEN = {"loop": "auto"}


def run_scenario(scenario: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=lambda: new_event_loop(CHOSEN["loop"])) as runner:
        runner.run(asyncio.wait_for(scenario(), 90))


@asynccontextmanager
async def serving(
    dispatch: Callable[[Connection, Any, int], Reply],
    budget_bytes: int = 1 << 20,
    *,
    monotonic_s: Callable[[], float] = time.monotonic,
    shared: SharedByListeners | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Listener, Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]]]:
    if shared is None:
        shared = SharedByListeners(NodeMetrics(), monotonic_s, budget_bytes=budget_bytes)
    listener = Listener(ListenerSettings(name="PLAINTEXT", **settings), shared)
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


def echo(connection: Connection, data: bytes, start: int) -> Reply:
    return [data[start:]]
