"""Election safety: at most one leader per term."""

from __future__ import annotations

from tests.simulation.observations import BecameLeader
from tests.simulation.world import Violation


class ElectionSafety:
    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}

    def observe(self, observation: object) -> None:
        if isinstance(observation, BecameLeader):
            known = self._leaders.setdefault(observation.term, observation.node_id)
            if known != observation.node_id:
                raise Violation(f"term {observation.term} has two leaders: node {known} and node {observation.node_id}")
