"""What the code under test asks of its machine, answered by the world: time, chance, disks, sockets, logs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tests.simulation.cluster.disk_calls import DiskCalls
from tests.simulation.cluster.loop import DiskThreads
from tests.simulation.cluster.process import PROCESS
from tests.simulation.cluster.sockets import Acceptor, Sockets
from tests.simulation.world import Violation, World

import tidelog.net.listener
import tidelog.node.node
import tidelog.node.statistics
import tidelog.partitions.partition
import tidelog.partitions.replication.replication
import tidelog.raft.quorum
import tidelog.runtime.clock
import tidelog.storage.log_flusher
import tidelog.telemetry.line_limits
from tidelog.raft.core.settings import MachineSettings

EPOCH_MS = 1_700_000_000_000
BACKGROUND_TASKS = "tidelog.tasks"
"""The logger that reports the faults of tasks that nobody awaits."""


class OrderedSet(dict[Any, None]):
    """A set that is gone through in the order in which it was filled: addresses of objects are not in the seed."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        super().__init__(dict.fromkeys(items))

    def add(self, item: Any) -> None:
        self[item] = None

    def discard(self, item: Any) -> None:
        self.pop(item, None)


class SameThread(Executor):
    """In place of threads that their owner waits for: what they do belongs to the process that asks for it."""

    def __init__(self, *_: object) -> None:
        super().__init__()

    def submit(self, work: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **options))
        except Exception as error:
            done.set_exception(error)
        return done


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
                if record.name == BACKGROUND_TASKS:
                    failure = Violation(f"{process}: {record.getMessage()}")
                    failure.__cause__ = record.exc_info[1]
                    self._world.failure = failure


@contextmanager
def simulated_machine(world: World, sockets: Sockets, hidden: str, append_bytes_max: int) -> Iterator[None]:
    """`hidden`: where the files are, which is another place each time and is left out of the story."""
    with ExitStack() as stack:
        for owner, name, replacement in _replacements(world, sockets, append_bytes_max):
            # Names of the language, `set` for one, are not in the module yet.
            stack.enter_context(patch.object(owner, name, replacement, create=not hasattr(owner, name)))
        stack.enter_context(_told(_Story(world, hidden)))
        yield


def _replacements(world: World, sockets: Sockets, append_bytes_max: int) -> Iterator[tuple[Any, str, object]]:
    """Everything that is not the nodes' own: whose name it is, the name, and what stands there in the simulation."""
    yield os, "urandom", Random(world.random.getrandbits(64)).randbytes
    yield tidelog.runtime.clock, "time", _Clock(world)

    disk = DiskCalls()
    for name in ("fsync", "fdatasync"):
        yield os, name, disk.sync
    for name in ("pwrite", "pwritev", "posix_fallocate", "unlink", "statvfs"):
        yield os, name, getattr(disk, name)
    yield tidelog.node.node, "ThreadPoolExecutor", lambda *_, **__: DiskThreads(world)
    yield tidelog.storage.log_flusher, "ThreadPoolExecutor", SameThread

    yield tidelog.net.listener, "Acceptor", type("Acceptor", (Acceptor,), {"sockets": sockets})
    yield tidelog.raft.quorum, "MachineSettings", partial(MachineSettings, append_bytes_max=append_bytes_max)

    # What is not in the seed and would be seen: the load of this machine, lines left out, addresses of objects.
    load = SimpleNamespace(times=os.times, getloadavg=lambda: (0.0,), sysconf=os.sysconf)
    yield tidelog.node.statistics, "os", load
    yield tidelog.telemetry.line_limits.LineLimiter, "admit", lambda *_: (True, None)
    for module in (tidelog.net.listener, tidelog.partitions.partition, tidelog.partitions.replication.replication):
        yield module, "set", OrderedSet


@contextmanager
def _told(handler: logging.Handler) -> Iterator[None]:
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
