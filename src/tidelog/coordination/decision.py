"""What a core decides: records for the log, a reply for the caller, replies for requests that waited.

Rules: nothing of a decision is visible outside before its records are committed; a core changes what the log
remembers only in `replay`. Time is an argument and comes as a Moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

R = TypeVar("R")
_NO_PRODUCER: Final = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Moment:
    """Two clocks read together: deadlines use the monotonic one, timestamps the wall clock."""

    __slots__ = ("ticks_ms", "wall_ms")

    def __init__(self, ticks_ms: int, wall_ms: int) -> None:
        self.ticks_ms = ticks_ms
        """Monotonic; only differences mean anything."""
        self.wall_ms = wall_ms
        """Milliseconds since 1970; goes into records."""


Release = tuple[int, Any]
"""The token under which a request was parked earlier, and the reply to it."""


class Decision(Generic[R]):
    """The outcome of one request or one deadline; filled in by the core, carried out by the host."""

    __slots__ = ("failures", "producer", "records", "released", "reply")

    def __init__(self, reply: R) -> None:
        self.reply: R = reply
        """For the caller; None from an operation that may park means "parked under the token it was given"."""
        self.records: list[Any] = []
        """Appended as one batch: all or none of them survive a crash."""
        self.producer: tuple[int, int] = _NO_PRODUCER
        """Id and epoch of the producer in whose transaction the records are written: they count when it commits."""
        self.released: list[Release] = []
        self.failures: list[Callable[[Decision[Any], ErrorCode, Moment], None]] = []
        """Run in order when the append fails: each puts the core's volatile part right and corrects the replies.
        Without any, the caller gets the error and nothing has happened."""

    def release(self, token: int | None, reply: Any) -> None:
        if token is not None:
            self.released.append((token, reply))
