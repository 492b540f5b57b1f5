"""No committed offset is lost: once faults are over, the coordinators have every one that was acknowledged.

Before that a coordinator that was replaced and does not know it may answer with less, as Kafka's does.
"""

from __future__ import annotations

from tests.simulation.coordination_observations import OffsetCommitted, OffsetFetched
from tests.simulation.world import Violation


class CommittedOffsetsStay:
    def __init__(self) -> None:
        self._committed: dict[str, int] = {}

    def observe(self, observation: object) -> None:
        if isinstance(observation, OffsetCommitted):
            self._committed[observation.group] = observation.offset
        elif isinstance(observation, OffsetFetched):
            committed = self._committed.get(observation.group)
            if committed is not None and committed != observation.offset:
                raise Violation(f"{observation.group} committed {committed}, the coordinator has {observation.offset}")
