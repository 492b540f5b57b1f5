"""Deadlines by key, cheap to push back.

Heartbeats move a deadline far more often than one is reached, so moving one costs two dictionary operations: the heap
keeps the earlier entry and looks up the real deadline when that entry comes due. The heap never holds more than one
live entry per key, plus those left behind by deadlines that were moved forward.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class DeadlineQueue(Generic[K]):
    __slots__ = ("_due_ms", "_heap", "_queued_ms", "_sequence")

    def __init__(self) -> None:
        self._due_ms: dict[K, int] = {}
        self._queued_ms: dict[K, int] = {}
        """The heap entry that stands for a key; queued <= due for every key that is due."""
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0

    def schedule(self, key: K, deadline_ms: int) -> None:
        """Sets or moves the deadline of `key`."""
        self._due_ms[key] = deadline_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._push(key, deadline_ms)

    def cancel(self, key: K) -> None:
        if key in self._due_ms:
            del self._due_ms[key]

    def deadline_of(self, key: K) -> int | None:
        return self._due_ms.get(key)

    def __len__(self) -> int:
        return len(self._due_ms)

    def next_ms(self) -> int | None:
        """When to look again: never later than the earliest deadline, sometimes earlier."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int, limit: int = sys.maxsize) -> list[K]:
        """Removes and returns the keys whose deadline is not after `now_ms`, earliest first; the rest stays due."""
        due: list[K] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < limit:
            queued_ms, _, key = heappop(self._heap)
            if self._queued_ms.get(key) != queued_ms:
                continue
            del self._queued_ms[key]
            deadline_ms = self._due_ms.get(key)
            if deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._push(key, deadline_ms)
            else:
                del self._due_ms[key]
                due.append(key)
        return due

    def _push(self, key: K, deadline_ms: int) -> None:
        self._sequence += 1
        self._queued_ms[key] = deadline_ms
        heappush(self._heap, (deadline_ms, self._sequence, key))
