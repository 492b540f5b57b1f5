"""Strikes in the first moments of a reign, which faults that come by the clock hardly ever hit.

What a new leader needs is then on one disk and not on another: its vote, or its first entry. The rules that are for
exactly these moments can only be seen to hold, or to be broken, when something happens in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.cluster.node import VOTERS
from tests.simulation.observations import BecameLeader

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import SimulatedCluster

LEADER, VOTES = "leader", "votes"
"""Which nodes are struck: the leader that was elected, or the voters of its majority."""
FIRST_MOMENTS_MS = 60.0
"""A leader is cut off somewhere within this time: before its first entry is out, on its way, or on other disks."""
REST_MS = 700.0
"""Between two blows to the voters, so that something is written in between."""


class Ambush:
    """Sees what checkers see, and waits for an election."""

    def __init__(self, cluster: SimulatedCluster, target: str) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._strike = {LEADER: self._strike_leader, VOTES: self._strike_votes}[target]
        self._rests_until_ms = 0.0

    def observe(self, observation: object) -> None:
        if isinstance(observation, BecameLeader) and not self._cluster.is_calm:
            self._strike(observation.node_id)

    def _strike_leader(self, node_id: int) -> None:
        """The leader is cut off from all others, and a node that was cut off before is back, with a log that others do
        not have."""

        def cut() -> None:
            if not self._cluster.is_calm:
                self._isolate(node_id)

        self._world.after(self._world.random.uniform(0.0, FIRST_MOMENTS_MS), cut)

    def _strike_votes(self, node_id: int) -> None:
        """The leader is cut off, and the power of the other voters fails before they hear of it: all that is left of
        the election is on their disks."""
        if self._world.now_ms < self._rests_until_ms:
            return
        self._rests_until_ms = self._world.now_ms + REST_MS
        # Not within the step of the node that was elected.
        self._world.after(0.0, lambda: self._cut_power_behind(node_id))

    def _cut_power_behind(self, leader_id: int) -> None:
        self._isolate(leader_id)
        for node_id in VOTERS:
            node = self._cluster.nodes[node_id]
            if node_id != leader_id and node.is_up:
                node.crash(loses_power=True)
                node.start_later(1.0)

    def _isolate(self, node_id: int) -> None:
        others = [other for other in self._cluster.nodes if other != node_id]
        self._world.note("network", f"{node_id} was elected; it and {others} are parted")
        self._cluster.network.heal()
        self._cluster.network.isolate([node_id], others, one_way=False)
