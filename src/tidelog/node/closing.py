"""How a node is closed: each part that comes up says how it goes, and a stop goes through them in one order.

The order is that of the promises. Clients are turned away before anything behind the doors ends; what was asked is
answered while everything is still there; then the parts go in the reverse order of their dependence, down to the disk
and the threads. A start that fails closes what had come up in the same order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum, auto

Closer = Callable[[], Awaitable[object] | None]


class Step(Enum):
    """In the order of a stop."""

    HAND_OVER = auto()
    """Other nodes lead what this one leads, while it can still answer for it."""
    DOORS = auto()
    """Nothing new is accepted."""
    ADMIN = auto()
    ANSWERS = auto()
    """What is being answered is waited for, and a produce that waits for its sync with it."""
    CONNECTIONS = auto()
    TRANSACTIONS = auto()
    GROUPS = auto()
    DISPATCHER = auto()
    REPLICATION = auto()
    MAINTENANCE = auto()
    LIFECYCLE = auto()
    """The last heartbeat; the quorum is still needed for it."""
    CLUSTER = auto()
    DIRECTORY = auto()
    """Every log, in a thread: after this nothing is written."""
    THREADS = auto()


class Closing:
    """What is open, and how to close it."""

    def __init__(self) -> None:
        self._closers: dict[Step, Closer] = {}

    def note(self, step: Step, close: Closer) -> None:
        """In place of what was noted for the step before: how a part is closed depends on how far it has come."""
        self._closers[step] = close

    async def close(self) -> None:
        """Closes everything, and what is left when it was given up before. A part that fails does not keep the others
        from being closed; the first failure is raised in the end."""
        failure: Exception | None = None
        for step in Step:
            close = self._closers.pop(step, None)
            if close is None:
                continue
            try:
                closing = close()
                if closing is not None:
                    await closing
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
