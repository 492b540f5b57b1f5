"""State machine safety: all members that have applied up to an offset have applied the same, and what a client knows to
be committed is not lost."""

from __future__ import annotations

from tests.simulation.observations import Acknowledged, Applied
from tests.simulation.world import Violation


class StateMachineSafety:
    def __init__(self) -> None:
        self._digests: dict[int, tuple[int, int]] = {}
        """By offset: the digest of everything before, and the member that came there first."""
        self._acknowledged: dict[int, bytes] = {}

    def observe(self, observation: object) -> None:
        if isinstance(observation, Applied):
            known, first = self._digests.setdefault(observation.end_offset, (observation.digest, observation.node_id))
            if known != observation.digest:
                raise Violation(
                    f"node {observation.node_id} and node {first} applied different entries "
                    f"up to {observation.end_offset}"
                )
        elif isinstance(observation, Acknowledged):
            known_payload = self._acknowledged.setdefault(observation.end_offset, observation.payload)
            if known_payload != observation.payload:
                raise Violation(f"two clients were told of offset {observation.end_offset}")
