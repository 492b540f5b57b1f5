"""What a seed does to its quorum: faults drawn by chance, and storms that are after one kind of mistake."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.simulation.disk import DiskFaults
from tests.simulation.machines import MachineLimits, rate
from tests.simulation.network import NetworkFaults
from tests.simulation.world import World

NEVER = float("inf")
LIMITS = MachineLimits(clock_drift=0.2, loss=0.2, duplication=0.2, delays_ms=(2.0, 10.0, 40.0), stall=0.01)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a seed does to its quorum. Intervals are means in milliseconds; infinity for never."""

    voters: int
    names_directories: bool
    election_timeout_ms: int
    clock_drift: float
    network: NetworkFaults
    disk: DiskFaults
    propose_ms: float
    read_ms: float
    crash_ms: float
    step_crash: float
    """How often a member crashes right after a step, with all that the step wanted done on its way or on its disk."""
    partition_ms: float
    snapshot_ms: float
    change_ms: float
    transfer_ms: float
    hint_ms: float
    """How often a member gets the hint that its leader is gone, whether that is so or not."""

    @classmethod
    def draw(cls, world: World) -> Profile:
        random = world.random

        def sometimes(low: float, high: float, chance: float = 0.6) -> float:
            return random.uniform(low, high) if random.random() < chance else NEVER

        voters = random.choice((1, 2, 3, 3, 3, 4, 5))
        names_directories = random.random() < 0.5
        election_timeout_ms = random.choice((60, 150, 300))
        clock_drift, network, disk = LIMITS.draw(random)
        return cls(
            voters=voters,
            names_directories=names_directories,
            election_timeout_ms=election_timeout_ms,
            clock_drift=clock_drift,
            network=network,
            disk=disk,
            propose_ms=random.choice((5.0, 20.0, 100.0)),
            read_ms=sometimes(20.0, 200.0),
            crash_ms=sometimes(150.0, 2000.0, 0.8),
            step_crash=rate(random, 0.01),
            partition_ms=sometimes(150.0, 2000.0, 0.7),
            snapshot_ms=sometimes(50.0, 500.0),
            change_ms=sometimes(100.0, 1000.0),
            transfer_ms=sometimes(200.0, 2000.0, 0.3),
            # Of a source of its own: what else a seed draws stays as it was.
            hint_ms=Random(f"hints {world.seed}").choice((NEVER, 50.0, 300.0)),
        )


def as_drawn(drawn: Profile) -> Profile:
    """No storm."""
    return drawn


def crashes(drawn: Profile) -> Profile:
    """Members that crash at the worst moments, and a network that is slower than elections are patient."""
    return replace(
        drawn,
        voters=max(3, drawn.voters),
        election_timeout_ms=60,
        step_crash=0.01,
        crash_ms=200.0,
        propose_ms=10.0,
        network=replace(drawn.network, delay_max_ms=20.0, loss=0.1),
        disk=replace(drawn.disk, sync_max_ms=20.0),
        change_ms=NEVER,
        hint_ms=NEVER,
    )


def short_reigns(drawn: Profile) -> Profile:
    """Leaders that come no further than a few entries, on few members."""
    return replace(
        drawn,
        voters=5,
        election_timeout_ms=60,
        step_crash=0.004,
        crash_ms=120.0,
        partition_ms=100.0,
        propose_ms=6.0,
        network=replace(drawn.network, delay_max_ms=10.0, loss=0.05, straggler=0.0),
        disk=replace(drawn.disk, sync_max_ms=3.0, stall=0.0),
        change_ms=NEVER,
        snapshot_ms=NEVER,
        transfer_ms=NEVER,
        hint_ms=NEVER,
    )


def slow_disks(drawn: Profile) -> Profile:
    """The network is fast and syncs take long."""
    return replace(
        drawn,
        voters=3,
        election_timeout_ms=60,
        step_crash=0.002,
        crash_ms=100.0,
        partition_ms=100.0,
        propose_ms=5.0,
        network=replace(drawn.network, delay_max_ms=1.0, straggler=0.0),
        disk=replace(drawn.disk, sync_max_ms=60.0),
        change_ms=NEVER,
        snapshot_ms=NEVER,
        hint_ms=NEVER,
    )


def many_changes(drawn: Profile) -> Profile:
    """Members come and go all the time, behind partitions."""
    return replace(
        drawn,
        voters=3,
        election_timeout_ms=60,
        step_crash=0.001,
        crash_ms=400.0,
        partition_ms=120.0,
        propose_ms=20.0,
        network=replace(drawn.network, delay_max_ms=5.0, straggler=0.0),
        disk=replace(drawn.disk, sync_max_ms=3.0),
        change_ms=25.0,
        hint_ms=NEVER,
    )


STORMS = (crashes, short_reigns, slow_disks, many_changes)
