"""What a simulated process has for a machine: time, chance, disk, threads and network of the world that it lives in.

Nodes and clients are handed this. No name of theirs is replaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any

from tests.simulation.cluster.disk_calls import DiskCalls
from tests.simulation.cluster.loop import DiskThreads
from tests.simulation.cluster.process import PROCESS, Process
from tests.simulation.cluster.sockets import Acceptor, Sockets
from tests.simulation.world import Violation, World

from tidelog.net.network import AcceptsConnections, Network, NewConnection
from tidelog.node.environment import Environment
from tidelog.runtime.system import System, Usage
from tidelog.telemetry import logs

EPOCH_MS = 1_700_000_000_000
BACKGROUND_TASKS = "tidelog.tasks"
"""The logger that reports the faults of tasks that are not awaited."""


class Clock:
    """Of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def monotonic_s(self) -> float:
        return self._process.clock.now_s

    def monotonic_ms(self) -> int:
        return int(self.monotonic_s() * 1e9) // 1_000_000

    def wall_clock_ms(self) -> int:
        return int((EPOCH_MS / 1000 + self.monotonic_s()) * 1000)


class ProcessNetwork:
    """How one process reaches others, and is reached."""

    def __init__(self, process: Process, sockets: Sockets, chance: Random) -> None:
        self._process = process
        self._sockets = sockets
        self._chance = chance

    def as_network(self) -> Network:
        return Network(
            new_acceptor=self.new_acceptor,
            connect=self.connect,
            is_refused=self.is_refused,
            draw_share=self._chance.random,
        )

    def new_acceptor(self, new_connection: NewConnection, backlog: int) -> AcceptsConnections:
        return Acceptor(self._sockets, self._process, new_connection)

    async def connect(self, new_protocol: Callable[[], Any], host: str, port: int) -> None:
        await self._sockets.connect(self._process, new_protocol, port)

    async def is_refused(self, host: str, port: int) -> bool:
        try:
            transport, _ = await self._sockets.connect(self._process, asyncio.BufferedProtocol, port)
        except ConnectionRefusedError:
            return True
        transport.abort()
        return False


def environment_of(process: Process, sockets: Sockets, chance: Random, append_bytes_max: int) -> Environment:
    """For a node that runs in the process."""
    clock = Clock(process)
    system = System(
        wall_clock_ms=clock.wall_clock_ms,
        monotonic_s=clock.monotonic_s,
        monotonic_ms=clock.monotonic_ms,
        random_bytes=chance.randbytes,
        disk=DiskCalls(process).as_disk(),
        start_threads=lambda _: DiskThreads(process),
        # The load of the machine that simulates is not in the seed.
        measure_usage=lambda: Usage(0.0, 0, 0.0),
    )
    network = ProcessNetwork(process, sockets, chance).as_network()
    return Environment(system, network, append_bytes_max)


class _Story(logging.Handler):
    """What nodes log, in the world's trace."""

    def __init__(self, world: World, hidden: str) -> None:
        super().__init__(logging.INFO)
        self._world = world
        self._hidden = hidden

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        if process is not None and process.is_alive:
            self._world.note(process, f"- {record.getMessage().replace(self._hidden, '')}")
            if record.exc_info and record.exc_info[1] is not None:
                self._world.note(process, f"- {self.format(record)[-1500:].replace(self._hidden, '')}")
                if record.name == BACKGROUND_TASKS:
                    failure = Violation(f"{process}: {record.getMessage()}")
                    failure.__cause__ = record.exc_info[1]
                    self._world.failure = failure


@contextmanager
def simulated_machine(world: World, hidden: str) -> Iterator[None]:
    """What belongs to the whole process that simulates. `hidden`: where the files are, which is another place each time
    and is left out of the story."""
    with ExitStack() as stack:
        stack.enter_context(logs.limited_lines.lifted())
        stack.enter_context(_logs_go_to(_Story(world, hidden)))
        yield


@contextmanager
def _logs_go_to(handler: logging.Handler) -> Iterator[None]:
    """What nodes log goes to the handler and nowhere else."""
    logger = logging.getLogger("tidelog")
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
