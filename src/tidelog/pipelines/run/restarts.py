"""When a failed query is started again: a machine per query, without clock or Spark.

    starting -> running -> done | stopped
                running -> waiting -> starting        (a failure that another attempt may cure)
                running -> failed                     (one that it cannot, or too many in a row)

A batch that was completed ends a row of failures. Attempts while the broker is away do not count: it will be back, and
giving up before it is would be no help to anyone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidelog.pipelines.spec.model import Restart

FailureKind = Literal["fatal", "unreachable", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a query ended: one line for people, and whether another attempt can help."""

    text: str
    kind: FailureKind = "other"


class RestartMachine:
    """Decides after each failure: when to try again, or not at all."""

    def __init__(self, settings: Restart) -> None:
        self._settings = settings
        self.restarts = 0
        self._in_a_row = 0
        self._counted = 0
        self.due_ms: int | None = None
        """When the next attempt is due; None unless the query waits."""

    def take_progress(self) -> None:
        """A batch was completed."""
        self._in_a_row = self._counted = 0

    def take_failure(self, failure: Failure, now_ms: int) -> bool:
        """Whether the query will be started again (`due_ms` says when)."""
        self.due_ms = None
        if failure.kind == "fatal":
            return False
        self._in_a_row += 1
        if failure.kind != "unreachable":
            self._counted += 1
            if self._counted > self._settings.attempts_max:
                return False
        self.due_ms = now_ms + self._settings.delay_before(self._in_a_row)
        return True

    def is_due(self, now_ms: int) -> bool:
        return self.due_ms is not None and now_ms >= self.due_ms

    def take_start(self) -> None:
        """The attempt that was due is made now."""
        self.due_ms = None
        self.restarts += 1
