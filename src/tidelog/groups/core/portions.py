"""How much one decision does: what grows with the number of offsets, groups or members is done in portions.

A decision is one batch, which has to fit into `max.message.bytes`, and the shard serves no other request while it is
made. What is due at the same time is therefore decided one after the other, one group at a time: a group whose records
the log refuses does not keep other groups waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tidelog.coordination.deadlines import DeadlineQueue
from tidelog.coordination.decision import Decision, Moment
from tidelog.groups.core.rebalance import Deadline
from tidelog.groups.core.records import OffsetCommitRecord
from tidelog.model.limits import DEADLINES_PER_DECISION_MAX, DECISION_BYTES_MAX

_OVERHEAD_BYTES: Final = 32
"""Of a tombstone: what is in its key beside names, and what the batch adds."""
_CHARACTER_BYTES_MAX: Final = 4
_RECORDS_PER_DEADLINE: Final = 4
"""A member that goes takes three records with it, and the group gets a new epoch."""


class Portion:
    """The room that is left in a decision. The first thing always fits: nothing is left undone for ever."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = DECISION_BYTES_MAX

    @property
    def is_full(self) -> bool:
        return self._left <= 0

    def take(self, *names: str) -> None:
        """A record with these names in its key."""
        for name in names:
            self._left -= len(name) * _CHARACTER_BYTES_MAX
        self._left -= _OVERHEAD_BYTES

    def fill(self, decision: Decision[Any], tombstones: Iterable[OffsetCommitRecord]) -> tuple[int, bool]:
        """Adds tombstones while there is room: how many, and whether these were all."""
        count = 0
        for tombstone in tombstones:
            if self.is_full:
                return count, False
            self.take(tombstone.group_id, tombstone.topic)
            decision.records.append(tombstone)
            count += 1
        return count, True


def pop_due_of_one_group(deadlines: DeadlineQueue[Deadline], now: Moment) -> list[Deadline]:
    """What is due first, and what else is due in the same group; the rest stays due."""
    taken: list[Deadline] = []
    portion = Portion()
    for deadline in deadlines.pop_due(now.ticks_ms, DEADLINES_PER_DECISION_MAX):
        _, group_id, member_id = deadline
        if taken and (portion.is_full or group_id != taken[0][1]):
            deadlines.schedule(deadline, now.ticks_ms)
            continue
        taken.append(deadline)
        for _ in range(_RECORDS_PER_DEADLINE):
            portion.take(group_id, member_id)
    return taken
