"""Which connections are accepted and which are closed again, and when."""

import asyncio
import time

import pytest
from tests.unit.net.serving import echo, frame, read_frame, run_scenario, serving, wait_until

from tidelog.model import limits
from tidelog.net import listener as listener_module
from tidelog.net.connection import Connection
from tidelog.net.listener import STALLED_FRAME_S, Listener, ListenError
from tidelog.net.reply import PendingReply, Reply
from tidelog.net.shared import SharedByListeners
from tidelog.telemetry.metrics import NodeMetrics

pytestmark = pytest.mark.usefixtures("loop_kind")


def test_the_largest_request_fits_a_budget_made_for_it() -> None:
    largest = 100_000

    async def run() -> None:
        budget_bytes = largest + limits.FRAME_SIZE_BYTES + 1
        async with serving(echo, budget_bytes, frame_bytes_max=largest) as (_, connect):
            reader, writer = await connect()
            writer.write(frame(b"x" * largest) * 2)
            for _ in range(2):
                assert await read_frame(reader) == b"x" * largest

    run_scenario(run)


def test_a_taken_port_is_one_clear_line() -> None:
    async def run() -> None:
        async with serving(echo) as (listener, _):
            other = Listener(listener.settings, listener.shared)
            with pytest.raises(ListenError, match=f"127.0.0.1:{listener.port}: the port is in use"):
                await other.bind("127.0.0.1", listener.port)

    run_scenario(run)


def test_connections_beyond_the_limit_of_an_address_are_closed() -> None:
    async def run() -> None:
        async with serving(echo, connections_max=3, connections_per_host_max=2) as (listener, connect):
            _, first = await connect()
            await connect()
            refused, _ = await connect()
            assert await refused.read() == b""
            first.close()
            await wait_until(lambda: listener.connection_count == 1)
            reader, writer = await connect()
            writer.write(frame(b"let me in"))
            assert await read_frame(reader) == b"let me in"
            assert listener.shared.metrics.connections_closed["limit"] == 1

    run_scenario(run)


def test_the_limits_hold_for_all_listeners_together_but_other_nodes_are_let_in() -> None:
    async def run() -> None:
        shared = SharedByListeners(NodeMetrics(), time.monotonic, budget_bytes=1 << 20)
        counts = shared.counts
        async with (
            serving(echo, shared=shared, connections_max=2) as (clients, connect_client),
            serving(echo, shared=shared, connections_max=2, is_for_nodes=True) as (_, connect_node),
        ):
            reader, writer = await connect_client()
            writer.write(frame(b"a client"))
            assert await read_frame(reader) == b"a client"
            for _ in range(2):
                reader, writer = await connect_node()
                writer.write(frame(b"a node of the cluster"))
                assert await read_frame(reader) == b"a node of the cluster"
            assert counts.total == 3
            refused, _ = await connect_client()
            assert await refused.read() == b""
            assert clients.shared.metrics.connections_closed["limit"] == 1
        assert (counts.total, counts.by_host) == (0, {})

    run_scenario(run)


def test_what_one_listener_holds_is_missing_to_another() -> None:
    pending: list[PendingReply] = []

    def wait(connection: Connection, data: bytes, start: int) -> Reply:
        pending.append(PendingReply())
        return pending[-1]

    async def run() -> None:
        shared = SharedByListeners(NodeMetrics(), time.monotonic, budget_bytes=10_000)
        async with serving(wait, shared=shared) as (_, connect), serving(echo, shared=shared) as (_, connect_other):
            reader, writer = await connect()
            writer.write(frame(b"x" * 9_996))
            await wait_until(lambda: len(pending) == 1)
            other_reader, other = await connect_other()
            for content in (b"read, since nothing was known of it", b"left in the socket"):
                other.write(frame(content))
            first = await read_frame(other_reader)
            await wait_until(lambda: shared.metrics.reads_paused == 2)
            pending[0].complete([b"answer"])
            assert await read_frame(reader) == b"answer"
            other.write(frame(b"read again"))
            answers = [first]
            while answers[-1] != b"read again":
                answers.append(await read_frame(other_reader))
            assert shared.budget.used_bytes == 0

    run_scenario(run)


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def swept(listener: Listener) -> None:
    """The listener has noticed which connections it heard."""
    await wait_until(lambda: not any(one.was_heard for one in listener.connections))


def test_a_connection_that_is_silent_for_too_long_is_closed_unless_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "SWEEP_INTERVAL_S", 0.01)
    clock = Clock()
    pending = PendingReply()

    def dispatch(connection: Connection, data: bytes, start: int) -> Reply:
        return pending if data[start:] == b"wait for me" else [data[start:]]

    async def run() -> None:
        async with serving(dispatch, monotonic_s=clock, idle_s=60.0) as (listener, connect):
            silent_reader, silent = await connect()
            silent.write(frame(b"only once"))
            assert await read_frame(silent_reader) == b"only once"
            waiting_reader, waiting = await connect()
            waiting.write(frame(b"wait for me"))
            await wait_until(lambda: not all(one.is_idle for one in listener.connections))
            await swept(listener)
            clock.now_s += 59
            late_reader, late = await connect()
            late.write(frame(b"just came"))
            assert await read_frame(late_reader) == b"just came"
            assert listener.connection_count == 3
            await swept(listener)
            clock.now_s += 2
            assert await silent_reader.read() == b""
            await wait_until(lambda: listener.connection_count == 2)
            assert listener.shared.metrics.connections_closed["idle"] == 1
            pending.complete([b"at last"])
            assert await read_frame(waiting_reader) == b"at last"
            assert await waiting_reader.read() == b"", "answered, it is idle like any other"
            late.write(frame(b"still here"))
            assert await read_frame(late_reader) == b"still here"

    run_scenario(run)


def test_a_stalled_request_is_closed_when_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "SWEEP_INTERVAL_S", 0.01)
    clock = Clock()

    async def run() -> None:
        async with serving(echo, 1000, monotonic_s=clock) as (listener, connect):
            stalled_reader, stalled = await connect()
            stalled.write(frame(b"x" * 900)[:500])
            await wait_until(lambda: listener.shared.budget.used_bytes == 500)
            await swept(listener)
            clock.now_s += STALLED_FRAME_S + 1
            sweeps = asyncio.get_running_loop().time() + 0.1
            await wait_until(lambda: asyncio.get_running_loop().time() > sweeps)
            assert listener.connection_count == 1, "there is memory for it"
            _, second = await connect()
            second.write(frame(b"y" * 900)[:600])
            assert await stalled_reader.read() == b"", "its memory is needed now"
            await wait_until(lambda: listener.connection_count == 1)
            assert listener.shared.metrics.connections_closed["slow"] == 1
            assert listener.shared.budget.used_bytes == 600

    run_scenario(run)
