"""A node whose disk was full is back, with all that the others have, once there is room."""

from __future__ import annotations

from tests.simulation.disk_observations import DiskFilled, PeaceCame
from tests.simulation.world import Violation


class FullDisksRecover:
    def __init__(self) -> None:
        self._filled: set[int] = set()

    def observe(self, observation: object) -> None:
        if isinstance(observation, DiskFilled):
            self._filled.add(observation.node_id)
        elif isinstance(observation, PeaceCame) and (missing := self._filled - observation.whole):
            raise Violation(f"the disks of nodes {sorted(missing)} were full, and they never came back")
