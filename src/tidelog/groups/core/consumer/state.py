"""The states of a consumer group and of its members, and the ways between them.

A group's state is not kept but derived: from whether it has members, whether their target assignment is as new as the
group, and whether every member has reached it. A member's state is in its record, and follows from two questions that
`reconciliation.py` asks whenever the member may move on.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final


class ConsumerGroupState(Enum):
    """The value is the name that clients and tools see."""

    EMPTY = "Empty"
    """No members; lingers while it has committed offsets."""
    ASSIGNING = "Assigning"
    """Something changed and the next heartbeat makes a new target assignment."""
    RECONCILING = "Reconciling"
    """Members give up and take over partitions, each at its own pace."""
    STABLE = "Stable"
    """Every member owns what the target assignment says."""
    DEAD = "Dead"
    """There is no such group."""


class MemberState(IntEnum):
    """The value is what the member's record holds."""

    STABLE = 0
    """Owns its whole target assignment at the epoch of that assignment; waits for a newer one."""
    UNREVOKED_PARTITIONS = 1
    """Has to give up partitions and stays at its old epoch until it reports that it has, or until its time is over."""
    UNRELEASED_PARTITIONS = 2
    """Is at the target epoch, but others still own some of its partitions; looks again with every heartbeat."""


STABLE: Final = MemberState.STABLE
UNREVOKED_PARTITIONS: Final = MemberState.UNREVOKED_PARTITIONS
UNRELEASED_PARTITIONS: Final = MemberState.UNRELEASED_PARTITIONS

NEXT: Final[dict[tuple[bool, bool], MemberState]] = {
    (True, True): UNREVOKED_PARTITIONS,
    (True, False): UNREVOKED_PARTITIONS,
    (False, True): UNRELEASED_PARTITIONS,
    (False, False): STABLE,
}
"""(must it still give something up, does another member still own some of its partitions) to the state it goes to."""

TRANSITIONS: Final[dict[tuple[MemberState, bool], frozenset[MemberState]]] = {
    (STABLE, False): frozenset({STABLE}),
    (STABLE, True): frozenset({STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS}),
    (UNREVOKED_PARTITIONS, False): frozenset({UNREVOKED_PARTITIONS, STABLE, UNRELEASED_PARTITIONS}),
    (UNREVOKED_PARTITIONS, True): frozenset({UNREVOKED_PARTITIONS, STABLE, UNRELEASED_PARTITIONS}),
    (UNRELEASED_PARTITIONS, False): frozenset({UNRELEASED_PARTITIONS, STABLE}),
    (UNRELEASED_PARTITIONS, True): frozenset({UNRELEASED_PARTITIONS, STABLE, UNREVOKED_PARTITIONS}),
}
"""(state, is there a newer target than it had) to where a heartbeat may take the member. From UNREVOKED_PARTITIONS it
goes on only once it no longer owns what it gives up. A member that unsubscribes from a topic that it reads goes to
UNREVOKED_PARTITIONS from everywhere, until it says that it owns none of it."""
