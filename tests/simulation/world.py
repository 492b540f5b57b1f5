"""One simulated world: virtual time, chance from one seed, and a trace of what happened.

Everything that happens is a callback on one heap, ordered by time and then by when it was scheduled, so a seed decides
everything. Networks, disks and machines of any kind live in it; checkers see what they observe and raise Violation.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

TRACE_LINES_MAX = 4000


class Violation(AssertionError):
    """An invariant does not hold. The text says which and how."""

    checker: type | None = None
    """The checker that noticed; None for what is no checker's business, as a cluster that does not come to rest."""


class Checker(Protocol):
    def observe(self, observation: object) -> None:
        """Raises Violation when what was observed must not be."""
        ...


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now_ms = 0.0
        self.checkers: list[Checker] = []
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self.steps = 0
        self.failure: Exception | None = None
        """What ended the run, where its observer could not raise it through the code under test."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0

    def after(self, delay_ms: float, callback: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._heap, (self.now_ms + max(delay_ms, 0.0), self._scheduled, callback))

    def run_for(self, duration_ms: float) -> None:
        end_ms = self.now_ms + duration_ms
        while self._heap and self._heap[0][0] <= end_ms:
            self.now_ms, _, callback = heapq.heappop(self._heap)
            self.steps += 1
            callback()
            if self.failure is not None:
                raise self.failure
        self.now_ms = end_ms

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Whether the condition came true in time; it is looked at once per virtual 10 ms."""
        end_ms = self.now_ms + timeout_ms
        while not condition() and self.now_ms < end_ms:
            self.run_for(10.0)
        return condition()

    def end(self) -> None:
        """Nothing that was to come happens any more."""
        self._heap.clear()

    def note(self, who: object, text: str) -> None:
        self.trace.append(f"{self.now_ms:10.1f} {who}: {text}")

    def observe(self, observation: object) -> None:
        for checker in self.checkers:
            try:
                checker.observe(observation)
            except Violation as violation:
                violation.checker = type(checker)
                self.failure = violation
                raise

    def story(self) -> str:
        """The last things that happened, for the report of a failure."""
        return "\n".join(self.trace)
