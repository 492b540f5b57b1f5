"""No record that was acknowledged is lost: it is in the log in the end, at the offset that its producer got."""

from __future__ import annotations

from tests.simulation.replication_observations import Acknowledged, Settled
from tests.simulation.world import Violation


class AcknowledgedRecordsStay:
    def __init__(self) -> None:
        self._acknowledged: dict[tuple[int, int], bytes] = {}

    def observe(self, observation: object) -> None:
        if isinstance(observation, Acknowledged):
            self._acknowledged[observation.partition, observation.offset] = observation.value
        elif isinstance(observation, Settled):
            for (partition, offset), value in self._acknowledged.items():
                if partition == observation.partition and observation.values.get(offset) != value:
                    found = observation.values.get(offset)
                    raise Violation(f"{value!r} was acknowledged at {partition}/{offset}, where there is {found!r}")
