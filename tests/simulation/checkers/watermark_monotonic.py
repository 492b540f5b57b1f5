"""A consumer that follows the leaders never gets a lower end than before."""

from __future__ import annotations

from tests.simulation.replication_observations import ReaderTold
from tests.simulation.world import Violation


class WatermarkNeverMovesBack:
    def __init__(self) -> None:
        self._highest: dict[int, ReaderTold] = {}

    def observe(self, observation: object) -> None:
        if isinstance(observation, ReaderTold):
            highest = self._highest.setdefault(observation.partition, observation)
            if observation.leader_epoch < highest.leader_epoch:
                # The leader was replaced, and the consumer knows: it would have been fenced.
                return
            if observation.high_watermark < highest.high_watermark:
                raise Violation(f"the high watermark moved back: {highest}, then {observation}")
            self._highest[observation.partition] = observation
