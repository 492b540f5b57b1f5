"""The five states of a classic group and the ways between them.

`become` in `classic_group.py` is the only place that changes a state and refuses what this table does not list. A
replayed record sets the state it tells of directly: it stands for several steps at once.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class ClassicGroupState(Enum):
    """The value is the name that clients and tools see."""

    __hash__ = object.__hash__
    """Enum's own is written in Python, and every step looks into the table below."""

    EMPTY = "Empty"
    """No members; lingers while it has committed offsets, and is what a group that only commits offsets always is."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits for the members to join; joins are parked, heartbeats answer REBALANCE_IN_PROGRESS."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation is formed and waits for its leader's assignment; syncs of the others are parked."""
    STABLE = "Stable"
    """Every member has an assignment or can ask for it."""
    DEAD = "Dead"
    """Removed, or its partition is no longer coordinated here; final."""


# As constants for the reason of NO_ERROR.
EMPTY: Final = ClassicGroupState.EMPTY
PREPARING_REBALANCE: Final = ClassicGroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = ClassicGroupState.COMPLETING_REBALANCE
STABLE: Final = ClassicGroupState.STABLE
DEAD: Final = ClassicGroupState.DEAD

TRANSITIONS: Final[dict[ClassicGroupState, frozenset[ClassicGroupState]]] = {
    EMPTY: frozenset({PREPARING_REBALANCE, DEAD}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, EMPTY, DEAD}),
    COMPLETING_REBALANCE: frozenset({STABLE, PREPARING_REBALANCE, DEAD}),
    STABLE: frozenset({PREPARING_REBALANCE, DEAD}),
    DEAD: frozenset(),
}
"""From each state, where it may go. EMPTY and STABLE are entered by replaying a record, so they are durable."""
