"""In one generation of a group no partition has two owners, whichever coordinators said so."""

from __future__ import annotations

from tests.simulation.coordination_observations import PartitionsOwned
from tests.simulation.world import Violation


class OneOwnerPerGeneration:
    def __init__(self) -> None:
        self._owners: dict[tuple[str, int, int], str] = {}

    def observe(self, observation: object) -> None:
        if isinstance(observation, PartitionsOwned):
            for partition in observation.partitions:
                owner = self._owners.setdefault(
                    (observation.group, observation.generation, partition), observation.member
                )
                if owner != observation.member:
                    raise Violation(f"{owner} owns partition {partition} already in this generation: {observation}")
