"""No record of an idempotent producer is in the log twice, however often it was sent."""

from __future__ import annotations

from tests.simulation.replication_observations import Settled
from tests.simulation.world import Violation


class NoRecordTwice:
    def observe(self, observation: object) -> None:
        if isinstance(observation, Settled):
            first: dict[bytes, int] = {}
            for offset, value in observation.values.items():
                if value in first:
                    raise Violation(f"{value!r} is at {first[value]} and at {offset} of {observation.partition}")
                first[value] = offset
