"""A node's own clock: it runs a little fast or slow, and its zero is anywhere."""

from __future__ import annotations

from tests.simulation.world import World


class DriftingClock:
    def __init__(self, world: World, drift: float) -> None:
        """`drift` 0.1: up to a tenth faster or slower than the world."""
        self._world = world
        self._rate = 1.0 + world.random.uniform(-drift, drift)
        self._zero_ms = world.random.uniform(0.0, 1e6)

    @property
    def now_ms(self) -> int:
        return int(self._zero_ms + self._world.now_ms * self._rate)

    @property
    def now_s(self) -> float:
        return (self._zero_ms + self._world.now_ms * self._rate) / 1000

    def world_delay_ms(self, deadline_ms: float) -> float:
        """How long the world has to wait until this clock shows the deadline."""
        return max(0.0, (deadline_ms - self.now_ms) / self._rate)
