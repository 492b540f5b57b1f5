"""How bad the machines of a seed are: clocks, network and disks, drawn in one way for every simulator."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.simulation.disk import DiskFaults
from tests.simulation.network import NetworkFaults


def rate(random: Random, high: float) -> float:
    """Up to `high`, and nothing at all in some seeds: what never happens hides nothing."""
    return random.uniform(0.0, high) if random.random() < 0.6 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLimits:
    """The worst that a simulator may draw."""

    clock_drift: float
    loss: float
    duplication: float
    delays_ms: tuple[float, ...]
    """One of these is the longest of the seed."""
    straggler: float = 0.02
    syncs_ms: tuple[float, ...] = (1.0, 5.0, 30.0)
    stall: float

    def draw(self, random: Random) -> tuple[float, NetworkFaults, DiskFaults]:
        """The drift of clocks, the network, the disks."""
        drift = rate(random, self.clock_drift)
        network = NetworkFaults(
            loss=rate(random, self.loss),
            duplication=rate(random, self.duplication),
            delay_max_ms=random.choice(self.delays_ms),
            straggler=rate(random, self.straggler),
        )
        return drift, network, DiskFaults(sync_max_ms=random.choice(self.syncs_ms), stall=rate(random, self.stall))
