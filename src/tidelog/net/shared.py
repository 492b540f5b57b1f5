"""What all listeners of a node share: one budget of bytes, one count of connections, one event loop.

Clients cannot get more memory or more connections by spreading over several listeners. Another way into the node, such
as an HTTP gateway, takes part by charging the same budget and counting its connections here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.net.budget import ByteBudget
from tidelog.net.framing import SCRATCH_BYTES
from tidelog.net.outbox import Outbox
from tidelog.net.places import FramePlaces
from tidelog.telemetry.metrics import NodeMetrics


class ConnectionCounts:
    """How many connections a node has, in total and by the peer's host."""

    __slots__ = ("by_host", "total")

    def __init__(self) -> None:
        self.total = 0
        self.by_host: dict[str, int] = {}
        """Hosts without a connection have no entry, so that it does not grow with every host ever seen."""

    def opened(self, host: str) -> None:
        self.total += 1
        self.by_host[host] = self.by_host.get(host, 0) + 1

    def closed(self, host: str) -> None:
        self.total -= 1
        left = self.by_host[host] - 1
        if left:
            self.by_host[host] = left
        else:
            del self.by_host[host]


class SharedByListeners:
    """Belongs to one event loop."""

    __slots__ = ("budget", "counts", "metrics", "monotonic_s", "outbox", "places", "scratch")

    def __init__(self, metrics: NodeMetrics, monotonic_s: Callable[[], float], *, budget_bytes: int) -> None:
        self.metrics: Final = metrics
        self.monotonic_s: Final = monotonic_s
        self.budget: Final = ByteBudget(budget_bytes)
        """Bytes of requests that are read and not yet answered."""
        self.counts: Final = ConnectionCounts()
        self.scratch: Final = memoryview(bytearray(SCRATCH_BYTES))
        """The sockets of all connections are read into it, one at a time."""
        self.places: Final = FramePlaces()
        self.outbox: Final = Outbox()
