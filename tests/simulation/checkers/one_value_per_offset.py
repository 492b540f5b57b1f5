"""Below the high watermark an offset holds one value, on whichever node and whenever it is looked at."""

from __future__ import annotations

from tests.simulation.replication_observations import Acknowledged, Committed
from tests.simulation.world import Violation


class OneValuePerOffset:
    def __init__(self) -> None:
        self._values: dict[tuple[int, int], tuple[bytes, object]] = {}

    def observe(self, observation: object) -> None:
        if isinstance(observation, (Committed, Acknowledged)):
            key = (observation.partition, observation.offset)
            value, source = self._values.setdefault(key, (observation.value, observation))
            if value != observation.value:
                raise Violation(f"two values at one offset: {source} and {observation}")
