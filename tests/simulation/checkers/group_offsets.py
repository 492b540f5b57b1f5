"""How far a group is never moves back: a later owner of a partition begins and goes on behind all that was
committed before, and in the end nothing of it is lost.

Order is by generation, not by when members hear of it: answers may be late.
"""

from __future__ import annotations

from collections import defaultdict

from tests.simulation.coordination_observations import GroupAudited, MemberBegan, MemberCommitted
from tests.simulation.world import Violation

Place = tuple[str, int]


class GroupOffsetsNeverMoveBack:
    def __init__(self) -> None:
        self._committed: dict[Place, dict[int, MemberCommitted]] = defaultdict(dict)
        """By generation: the furthest that was acknowledged in it."""
        self._known: dict[Place, dict[int, MemberBegan | MemberCommitted]] = defaultdict(dict)
        """By generation: the least that anyone saw in it."""

    def observe(self, observation: object) -> None:
        if isinstance(observation, GroupAudited):
            for committed in self._committed[observation.group, observation.partition].values():
                _check(committed, observation)
            return
        if not isinstance(observation, MemberBegan | MemberCommitted):
            return
        place = observation.group, observation.partition
        for generation, committed in self._committed[place].items():
            if generation < observation.generation:
                _check(committed, observation)
        least = self._known[place].setdefault(observation.generation, observation)
        if observation.offset < least.offset:
            self._known[place][observation.generation] = observation
        if isinstance(observation, MemberCommitted):
            for generation, known in self._known[place].items():
                if generation > observation.generation:
                    _check(observation, known)
            furthest = self._committed[place].setdefault(observation.generation, observation)
            if observation.offset > furthest.offset:
                self._committed[place][observation.generation] = observation


def _check(committed: MemberCommitted, later: MemberBegan | MemberCommitted | GroupAudited) -> None:
    if later.offset < committed.offset:
        raise Violation(f"{committed} is acknowledged, and then there is {later}")
