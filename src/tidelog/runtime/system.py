"""What a node asks of the machine that it runs on: time, chance, disks, threads, and how busy it is.

One value, handed down from the node to whatever asks. Functions are bound where an object is made, so a clock costs a
request no more than one from a module would. Cores have none of this: time and chance are their arguments.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.model.value import Value
from tidelog.runtime.clock import monotonic_ms, monotonic_s, wall_clock_ms
from tidelog.runtime.disk import DISK, Disk

if TYPE_CHECKING:
    from concurrent.futures import Executor


class Usage(Value):
    """What this process takes of its machine."""

    cpu_s: float
    """Of all its threads, since it began."""
    resident_bytes: int
    """0 where the system does not say."""
    load_average: float
    """Of the machine, over one minute."""


def measure_usage() -> Usage:
    times = os.times()
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            resident_bytes = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        resident_bytes = 0
    return Usage(times.user + times.system, resident_bytes, os.getloadavg()[0])


def start_threads(count: int) -> Executor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count, thread_name_prefix="tidelog")


class System(Value):
    """This machine, unless other functions are given."""

    wall_clock_ms: Callable[[], int] = staticmethod(wall_clock_ms)
    monotonic_s: Callable[[], float] = staticmethod(monotonic_s)
    monotonic_ms: Callable[[], int] = staticmethod(monotonic_ms)
    random_bytes: Callable[[int], bytes] = os.urandom
    """As many as asked for, and unpredictable."""
    disk: Disk = DISK
    start_threads: Callable[[int], Executor] = staticmethod(start_threads)
    """Threads for work that the event loop must not wait for: it learns of the end through futures."""
    measure_usage: Callable[[], Usage] = staticmethod(measure_usage)


SYSTEM = System()
"""The machine that this process runs on."""
