"""Read index: a read sees everything that any client knew to be committed when it began."""

from __future__ import annotations

from tests.simulation.observations import ReadServed
from tests.simulation.world import Violation


class ReadsAreCurrent:
    def observe(self, observation: object) -> None:
        if isinstance(observation, ReadServed) and observation.offset < observation.acknowledged_before:
            raise Violation(
                f"node {observation.node_id} serves a read at {observation.offset}, but "
                f"{observation.acknowledged_before} had been acknowledged before"
            )
