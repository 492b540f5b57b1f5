"""Simulated processes: what runs in one dies with it, waits while it is stopped, and sees its machine's clock.

Which process code belongs to is a context variable, and asyncio hands contexts on: from a task to what it starts and
schedules. A process is one incarnation; a node that comes back is another process on the same disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from tests.simulation.clock import DriftingClock
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.cluster.files import SyncedFiles
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.sockets import SimulatedSocket

PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)


class Process:
    def __init__(self, world: World, host: int, clock: DriftingClock, node: SimulatedNode | None = None) -> None:
        """`host` is the place in the network. `node`: whose process it is; None for a client."""
        self.world = world
        self.host = host
        self.clock = clock
        self.node = node
        self.is_alive = True
        self.is_repeated = True
        """Whether the network may bring what it sends once more."""
        self.stopped_until_ms = 0.0
        self.backlog: list[Callable[[], None]] = []
        """What came while it was stopped, in order."""
        self._is_waiting = False
        self.sockets: dict[SimulatedSocket, None] = {}
        self.context = copy_context()
        self.context.run(PROCESS.set, self)

    @property
    def files(self) -> SyncedFiles:
        assert self.node is not None, "clients have no disk"
        return self.node.files

    def run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """Starts a task of this process."""
        return self.context.copy().run(lambda: asyncio.ensure_future(work()))

    def stop_for(self, duration_ms: float) -> None:
        """As SIGSTOP does: nothing of it runs, while its sockets stay open and fill up."""
        is_stopped = self.is_stopped
        self.stopped_until_ms = max(self.stopped_until_ms, self.world.now_ms + duration_ms)
        if not is_stopped:
            self._wait_for_end()

    @property
    def is_stopped(self) -> bool:
        return self._is_waiting

    def _wait_for_end(self) -> None:
        self._is_waiting = self.world.now_ms < self.stopped_until_ms
        if self._is_waiting:
            self.world.after(self.stopped_until_ms - self.world.now_ms, self._wait_for_end)
            return
        backlog, self.backlog = self.backlog, []
        for callback in backlog:
            callback()

    def kill(self, *, tells_peers: bool) -> None:
        """Nothing of it ever runs again. `tells_peers`: the kernel is left to close its connections."""
        self.is_alive = False
        for socket in list(self.sockets):
            socket.die(tells_peer=tells_peers)
        self.sockets.clear()

    def __str__(self) -> str:
        return f"node {self.host}" if self.node is not None else f"client {self.host}"


def current_process() -> Process:
    process = PROCESS.get()
    assert process is not None, "only processes do this"
    return process
