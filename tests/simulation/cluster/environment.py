"""What the code under test asks of its machine, answered by the world: time, chance, disks, sockets, logs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.simulation.cluster.loop import DiskThreads
from tests.simulation.cluster.process import PROCESS
from tests.simulation.cluster.sockets import Acceptor, Sockets
from tests.simulation.world import World

import tidelog.net.listener
import tidelog.node.node
import tidelog.node.statistics
import tidelog.partitions.partition
import tidelog.partitions.replication.replication
import tidelog.runtime.clock
import tidelog.telemetry.logs

EPOCH_MS = 1_700_000_000_000


class OrderedSet(dict[Any, None]):
    """A set that is gone through in the order in which it was filled: addresses of objects are not in the seed."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(dict.fromkeys(items))

    def add(self, item: Any) -> None:
        self[item] = None

    def discard(self, item: Any) -> None:
        self.pop(item, None)


class _Clock:
    """In place of the module `time`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        process = PROCESS.get()
        return self._world.now_ms / 1000 if process is None else process.clock.now_s

    def monotonic_ns(self) -> int:
        return int(self.monotonic() * 1e9)

    def time(self) -> float:
        return EPOCH_MS / 1000 + self.monotonic()

    def time_ns(self) -> int:
        return EPOCH_MS * 1_000_000 + self.monotonic_ns()


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


@contextmanager
def simulated_machine(world: World, sockets: Sockets, hidden: str) -> Iterator[None]:
    """`hidden`: where the files are, which is another place each time and is left out of the story."""
    chance = Random(world.random.getrandbits(64))
    clock = _Clock(world)

    def synced(fd: int) -> None:
        process = PROCESS.get()
        if process is not None and process.node is not None and process.is_alive:
            process.files.synced(fd)

    with ExitStack() as stack:

        def put(owner: Any, name: str, replacement: object, *, create: bool = False) -> None:
            stack.enter_context(patch.object(owner, name, replacement, create=create))

        put(os, "urandom", chance.randbytes)
        put(os, "fsync", synced)
        put(os, "fdatasync", synced)
        put(tidelog.runtime.clock, "time", clock)
        put(tidelog.telemetry.logs.RateLimiter, "admit", lambda *_: 0)
        put(tidelog.node.node, "ThreadPoolExecutor", lambda *_, **__: DiskThreads(world))
        put(tidelog.net.listener, "Acceptor", type("Acceptor", (Acceptor,), {"sockets": sockets}))
        put(
            tidelog.node.statistics,
            "os",
            SimpleNamespace(times=os.times, getloadavg=lambda: (0.0,), sysconf=os.sysconf),
        )
        for module in (
            tidelog.net.listener,
            tidelog.partitions.partition,
            tidelog.partitions.replication.replication,
        ):
            put(module, "set", OrderedSet, create=True)
        logger = logging.getLogger("tidelog")
        handler, level, propagates = _Story(world, hidden), logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagates
