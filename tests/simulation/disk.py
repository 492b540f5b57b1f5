"""A disk that loses what was not synced: operations on an image, of which a crash keeps some first part.

`Image` is whatever a node keeps; the disk holds two of them, one as the node sees it and one as a crash would leave it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from tests.simulation.world import World


class Image(Protocol):
    def apply(self, operation: object) -> None: ...

    def copy(self) -> Self: ...


I = TypeVar("I", bound=Image)  # noqa: E741


@dataclass(slots=True)
class DiskFaults:
    sync_min_ms: float = 0.1
    sync_max_ms: float = 3.0
    stall: float = 0.0
    """Part of the syncs that take a hundred times as long."""


class Disk(Generic[I]):
    """`current`: as the node reads it. `durable`: what is left after a crash."""

    def __init__(self, world: World, faults: DiskFaults, make_image: Callable[[], I]) -> None:
        self._world = world
        self.faults = faults
        self.current = make_image()
        self.durable = make_image()
        self._make_image = make_image
        self._unsynced: list[object] = []
        self._incarnation = 0

    def write(self, operation: object) -> None:
        """Into the page cache: the node sees it, a crash may lose it."""
        self.current.apply(operation)
        self._unsynced.append(operation)

    def write_through(self, operation: object) -> None:
        """Everything up to and with this operation is durable when it returns."""
        self.write(operation)
        self._make_durable(len(self._unsynced))

    def sync(self, done: Callable[[], None]) -> None:
        """`done` is called when everything written before is durable, unless a crash comes first."""
        count, incarnation = len(self._unsynced), self._incarnation
        first = self._unsynced[0] if count else None
        delay_ms = self._world.random.uniform(self.faults.sync_min_ms, self.faults.sync_max_ms)
        if self._world.random.random() < self.faults.stall:
            delay_ms *= 100

        def finish() -> None:
            if incarnation == self._incarnation:
                if count and self._unsynced and self._unsynced[0] is first:
                    self._make_durable(count)
                done()

        self._world.after(delay_ms, finish)

    def _make_durable(self, count: int) -> None:
        for operation in self._unsynced[:count]:
            self.durable.apply(operation)
        del self._unsynced[:count]

    def crash(self) -> None:
        """The node is gone, and with it an arbitrary last part of what was not synced."""
        self._incarnation += 1
        self._make_durable(self._world.random.randint(0, len(self._unsynced)))
        self._unsynced.clear()
        self.current = self.durable.copy()

    def wipe(self) -> None:
        self._incarnation += 1
        self._unsynced.clear()
        self.current, self.durable = self._make_image(), self._make_image()
