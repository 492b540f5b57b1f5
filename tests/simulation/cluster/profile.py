"""What a seed does to its cluster: faults drawn by chance, and storms that are after one kind of mistake."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.simulation.disk import DiskFaults
from tests.simulation.network import NetworkFaults
from tests.simulation.world import World

FAULTS = ("crash", "power", "disk", "stop", "cut", "one way", "cut a few", "shut down", "move", "resign")
"""What can happen to nodes; `cluster.py` says what each is."""


@dataclass(frozen=True, slots=True)
class ClusterProfile:
    nodes: int
    joins: bool
    """Whether the first node founds the cluster and the others join it; else the first three know of one another."""
    election_timeout_ms: int
    session_ms: int
    lag_ms: int
    snapshot_bytes: int
    min_in_sync: int
    syncs: bool
    """Whether all topics have `tidelog.flush=ack`: power may then fail everywhere at once."""
    clock_drift: float
    network: NetworkFaults
    disk: DiskFaults
    faults: tuple[str, ...]
    pause_ms: float
    """Between two faults, in the mean."""
    aims_at_controller: float
    """How often it is the controller that is hit; else anyone, or a leader of a partition."""

    @classmethod
    def draw(cls, world: World) -> ClusterProfile:
        random = world.random

        def rate(high: float) -> float:
            return random.uniform(0.0, high) if random.random() < 0.6 else 0.0

        return cls(
            nodes=random.choice((3, 3, 3, 4, 5)),
            joins=world.seed % 4 == 3,
            election_timeout_ms=random.choice((150, 300)),
            session_ms=random.choice((400, 800)),
            lag_ms=random.choice((100, 300, 600)),
            snapshot_bytes=random.choice((2000, 8000, 1 << 20)),
            min_in_sync=random.choice((1, 2, 2)),
            syncs=random.random() < 0.5,
            clock_drift=rate(0.1),
            network=NetworkFaults(
                loss=rate(0.05),
                duplication=rate(0.1),
                delay_max_ms=random.choice((1.0, 5.0, 20.0)),
                straggler=rate(0.02),
            ),
            disk=DiskFaults(sync_max_ms=random.choice((1.0, 5.0, 30.0)), stall=rate(0.02)),
            faults=tuple(random.sample(FAULTS, random.randint(3, len(FAULTS)))),
            pause_ms=random.choice((500.0, 1000.0, 2000.0)),
            aims_at_controller=random.choice((0.2, 0.5)),
        )


def as_drawn(drawn: ClusterProfile) -> ClusterProfile:
    """No storm."""
    return drawn


def power_cuts(drawn: ClusterProfile) -> ClusterProfile:
    """Everything is synced before it is acknowledged, and the power fails all the time, often everywhere at once."""
    return replace(
        drawn,
        syncs=True,
        faults=("power", "power", "crash"),
        pause_ms=1000.0,
        disk=replace(drawn.disk, sync_max_ms=10.0),
    )


def lost_controllers(drawn: ClusterProfile) -> ClusterProfile:
    """Whoever controls is cut off, stopped or asked to go while others are quick to lag."""
    return replace(
        drawn,
        election_timeout_ms=300,
        session_ms=400,
        lag_ms=100,
        min_in_sync=1,
        faults=("stop", "cut", "cut", "one way", "resign", "move"),
        pause_ms=800.0,
        aims_at_controller=0.8,
        network=replace(drawn.network, delay_max_ms=5.0, straggler=0.0),
    )


def late_duplicates(drawn: ClusterProfile) -> ClusterProfile:
    """Requests come twice, the second time long after, while in-sync sets shrink and grow."""
    return replace(
        drawn,
        lag_ms=100,
        min_in_sync=1,
        faults=("stop", "cut a few", "one way", "crash", "move"),
        pause_ms=600.0,
        aims_at_controller=0.1,
        network=replace(drawn.network, duplication=0.4, delay_max_ms=5.0, straggler=0.0, loss=0.0),
    )


def lost_tails(drawn: ClusterProfile) -> ClusterProfile:
    """Nothing is synced, and nodes lose the ends of their logs while others are in sync."""
    return replace(
        drawn,
        syncs=False,
        faults=("power", "power", "disk", "crash", "move"),
        pause_ms=600.0,
        network=replace(drawn.network, delay_max_ms=5.0, straggler=0.0),
    )


def joined_power_cuts(drawn: ClusterProfile) -> ClusterProfile:
    """The same power cuts where all nodes but the first have joined: who is needed must not wait for who needs it."""
    return replace(power_cuts(drawn), joins=True)


CLUSTER_STORMS = (power_cuts, lost_controllers, late_duplicates, lost_tails, joined_power_cuts)
