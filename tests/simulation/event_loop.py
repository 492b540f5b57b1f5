"""What a partition needs of an event loop and of the thread that syncs its log, in virtual time.

The real code asks asyncio for the running loop and hands syncs to an executor; here both are the world's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, cast

from tests.simulation.disk import DiskFaults
from tests.simulation.world import World

from tidelog.storage.log_flusher import PendingFlush


class SimulatedLoop:
    def __init__(self, world: World) -> None:
        self._world = world

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._world.after(0.0, lambda: callback(*arguments))

    call_soon = call_soon_threadsafe


@contextmanager
def running_loop(loop: SimulatedLoop) -> Iterator[None]:
    asyncio._set_running_loop(cast("asyncio.AbstractEventLoop", loop))
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


class SyncingThread(Executor):
    """Does one thing after the other, each some time after it was asked for; a crash of the node ends all of it."""

    def __init__(self, world: World, faults: DiskFaults, begins: Callable[[PendingFlush], Callable[[], None]]) -> None:
        """`begins` is called with every sync when it begins; what it returns is called when that is done."""
        self._world = world
        self._faults = faults
        self._begins = begins
        self._free_ms = 0.0
        self._incarnation = 0

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        random, faults, incarnation = self._world.random, self._faults, self._incarnation
        [sync] = arguments
        done_on_disk = self._begins(sync.__self__)
        duration_ms = random.uniform(faults.sync_min_ms, faults.sync_max_ms)
        if random.random() < faults.stall:
            duration_ms *= 100
        self._free_ms = max(self._free_ms, self._world.now_ms) + duration_ms

        def finish() -> None:
            if incarnation == self._incarnation:
                result = work(*arguments, **named)
                done_on_disk()
                done.set_result(result)

        self._world.after(self._free_ms - self._world.now_ms, finish)
        return done

    def lose_all(self) -> None:
        """The node is gone: nothing under way comes to its end."""
        self._incarnation += 1
        self._free_ms = 0.0
