"""A network that delays, loses, doubles and reorders, and whose links can be cut in one direction or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.simulation.world import World


@dataclass(slots=True)
class NetworkFaults:
    loss: float = 0.0
    duplication: float = 0.0
    delay_min_ms: float = 0.2
    delay_max_ms: float = 5.0
    straggler: float = 0.0
    """Part of the messages that take a hundred times as long: what arrives late arrives out of order."""


class Network:
    def __init__(self, world: World, faults: NetworkFaults) -> None:
        self._world = world
        self.faults = faults
        self._cut: set[tuple[int, int]] = set()

    def cut(self, source: int, destination: int) -> None:
        self._cut.add((source, destination))

    def isolate(self, group: Iterable[int], others: Iterable[int], *, one_way: bool) -> None:
        """Nothing gets from the group to the others, nor back unless `one_way`."""
        others = list(others)
        for inside in group:
            for outside in others:
                self._cut.add((inside, outside))
                if not one_way:
                    self._cut.add((outside, inside))

    def heal(self) -> None:
        self._cut.clear()

    def calm(self) -> None:
        """From now on every message arrives once and soon."""
        self.heal()
        self.faults = NetworkFaults()

    def send(self, source: int, destination: int, deliver: Callable[[], None]) -> bool:
        """Whether the message is on its way; its sender may learn of it, as from a broken connection."""
        random, faults = self._world.random, self.faults
        if (source, destination) in self._cut or random.random() < faults.loss:
            return False
        for _ in range(2 if random.random() < faults.duplication else 1):
            delay_ms = random.uniform(faults.delay_min_ms, faults.delay_max_ms)
            if random.random() < faults.straggler:
                delay_ms *= 100
            self._world.after(delay_ms, self._delivery(source, destination, deliver))
        return True

    def _delivery(self, source: int, destination: int, deliver: Callable[[], None]) -> Callable[[], None]:
        def arrive() -> None:
            if (source, destination) not in self._cut:
                deliver()

        return arrive
