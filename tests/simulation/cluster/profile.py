"""What a seed does to its cluster: faults drawn by chance, and storms that are after one kind of mistake."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.simulation.cluster.ambush import LEADER, VOTES
from tests.simulation.disk import DiskFaults
from tests.simulation.machines import MachineLimits
from tests.simulation.network import NetworkFaults
from tests.simulation.world import World

from tidelog.model.limits import RAFT_APPEND_BYTES_MAX

LIMITS = MachineLimits(clock_drift=0.1, loss=0.05, duplication=0.1, delays_ms=(1.0, 5.0, 20.0), stall=0.02)
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
    has_members: bool
    """Whether there are groups with members."""
    has_older_transactions: bool = False
    """Whether transactions keep their producer's epoch, as before version 2 (KIP-890)."""
    append_bytes_max: int = RAFT_APPEND_BYTES_MAX
    """Of the metadata log in one message."""
    ambush: str | None = None
    """Which nodes are struck in the first moments after an election (`ambush.py`)."""

    @classmethod
    def draw(cls, world: World) -> ClusterProfile:
        random = world.random

        # Of sources of their own: what else a seed draws stays as it was.
        has_members = Random(f"members {world.seed}").random() < 0.4
        more_faults = ("full disk",) if Random(f"full disk {world.seed}").random() < 0.3 else ()

        nodes = random.choice((3, 3, 3, 4, 5))
        election_timeout_ms, session_ms = random.choice((150, 300)), random.choice((400, 800))
        lag_ms, snapshot_bytes = random.choice((100, 300, 600)), random.choice((2000, 8000, 1 << 20))
        min_in_sync, syncs = random.choice((1, 2, 2)), random.random() < 0.5
        clock_drift, network, disk = LIMITS.draw(random)
        return cls(
            nodes=nodes,
            joins=world.seed % 4 == 3,
            election_timeout_ms=election_timeout_ms,
            session_ms=session_ms,
            lag_ms=lag_ms,
            snapshot_bytes=snapshot_bytes,
            min_in_sync=min_in_sync,
            syncs=syncs,
            clock_drift=clock_drift,
            network=network,
            disk=disk,
            faults=tuple(random.sample(FAULTS, random.randint(3, len(FAULTS)))) + more_faults,
            pause_ms=random.choice((500.0, 1000.0, 2000.0)),
            aims_at_controller=random.choice((0.2, 0.5)),
            has_members=has_members,
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
    """The controller is cut off, stopped or asked to go while others are quick to lag."""
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
    """The same power cuts where all nodes but the first have joined: a node that others need must not wait for them."""
    return replace(power_cuts(drawn), joins=True)


def full_disks(drawn: ClusterProfile) -> ClusterProfile:
    """One disk after the other runs full, sometimes two at once, and nodes start on full disks."""
    return replace(
        drawn,
        faults=("full disk", "full disk", "full disk", "crash", "stop", "move"),
        pause_ms=700.0,
        aims_at_controller=0.4,
    )


def restless_groups(drawn: ClusterProfile) -> ClusterProfile:
    """Groups whose coordinators move about while members come and go, and hang."""
    return replace(
        drawn,
        has_members=True,
        lag_ms=100,
        faults=("stop", "crash", "cut a few", "cut", "one way"),
        pause_ms=700.0,
        aims_at_controller=0.1,
        network=replace(drawn.network, delay_max_ms=5.0, straggler=0.0),
    )


def older_transactions(drawn: ClusterProfile) -> ClusterProfile:
    """Producers that keep their epoch and use sequences again, while partitions get new leaders and nodes restart.

    Messages are lost and nodes cut off, so markers are sent twice: a first copy that came late would end the next
    transaction of the same epoch. A doubled request of a client may come at any time, and is left out: that is why
    version 2 moves the epoch, and in the older flow Apache Kafka cannot tell either.
    """
    return replace(
        drawn,
        has_older_transactions=True,
        syncs=True,
        faults=("crash", "power", "move", "shut down", "cut", "cut a few", "one way"),
        pause_ms=700.0,
        aims_at_controller=0.1,
        network=replace(drawn.network, delay_max_ms=5.0, straggler=0.0, duplication=0.0),
    )


def short_reigns(drawn: ClusterProfile) -> ClusterProfile:
    """Each leader is cut off as soon as it is elected, and logs travel an entry at a time: they end in terms that led
    to nothing, and part of an old one may be all that a majority gets."""
    return replace(
        drawn,
        nodes=3,
        joins=False,
        election_timeout_ms=150,
        append_bytes_max=1,
        ambush=LEADER,
        faults=("resign", "crash"),
        pause_ms=1000.0,
        aims_at_controller=1.0,
        network=replace(drawn.network, delay_max_ms=20.0, straggler=0.0, loss=0.0),
        disk=replace(drawn.disk, sync_max_ms=5.0, stall=0.0),
    )


def lost_votes(drawn: ClusterProfile) -> ClusterProfile:
    """As soon as a leader is elected it is cut off, and the power of its voters fails."""
    return replace(
        drawn,
        nodes=3,
        joins=False,
        syncs=True,
        election_timeout_ms=150,
        ambush=VOTES,
        faults=("resign", "crash"),
        pause_ms=500.0,
        aims_at_controller=1.0,
        network=replace(drawn.network, delay_max_ms=20.0, straggler=0.0, loss=0.0),
    )


CLUSTER_STORMS = (
    power_cuts,
    lost_controllers,
    late_duplicates,
    lost_tails,
    joined_power_cuts,
    short_reigns,
    lost_votes,
    full_disks,
    restless_groups,
    older_transactions,
)
