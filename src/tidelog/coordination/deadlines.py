"""Deadlines by key, cheap to push back.

Heartbeats move a deadline far more often than one is reached, so moving one is a look into a dictionary: the heap keeps
the earlier entry and looks at the real deadline when that entry comes due. The heap never holds more than one live
entry per key, plus a bounded number of those left behind by deadlines that were cancelled or moved forward.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

LEFT_BEHIND_MAX: Final = 1000
"""Entries of the heap that may stand for nothing any more, beside as many as there are deadlines."""


class _Deadline(Generic[K]):
    __slots__ = ("due_ms", "is_due", "key", "queued_ms")

    def __init__(self, key: K, due_ms: int) -> None:
        self.key = key
        self.due_ms = due_ms
        self.is_due = True
        """False when it was cancelled, until the heap comes to it."""
        self.queued_ms = due_ms
        """Of the entry in the heap that stands for it; never later than it is due."""


class DeadlineQueue(Generic[K]):
    __slots__ = ("_deadlines", "_due_count", "_heap", "_sequence")

    def __init__(self) -> None:
        self._deadlines: dict[K, _Deadline[K]] = {}
        self._due_count = 0
        self._heap: list[tuple[int, int, _Deadline[K]]] = []
        self._sequence = 0

    def schedule(self, key: K, deadline_ms: int) -> None:
        """Sets or moves the deadline of `key`."""
        deadline = self._deadlines.get(key)
        if deadline is None:
            deadline = self._deadlines[key] = _Deadline(key, deadline_ms)
            self._due_count += 1
            self._push(deadline)
            return
        deadline.due_ms = deadline_ms
        if not deadline.is_due:
            deadline.is_due = True
            self._due_count += 1
        if deadline_ms < deadline.queued_ms:
            self._push(deadline)

    def cancel(self, key: K) -> None:
        deadline = self._deadlines.get(key)
        if deadline is not None and deadline.is_due:
            deadline.is_due = False
            self._due_count -= 1
            if len(self._heap) > 2 * self._due_count + LEFT_BEHIND_MAX:
                self._forget_cancelled()

    def deadline_of(self, key: K) -> int | None:
        deadline = self._deadlines.get(key)
        return deadline.due_ms if deadline is not None and deadline.is_due else None

    def __len__(self) -> int:
        return self._due_count

    @property
    def entry_count(self) -> int:
        """Entries in memory, with those that cancelled deadlines left behind."""
        return max(len(self._heap), len(self._deadlines))

    def next_ms(self) -> int | None:
        """When to look again: never later than the earliest deadline, sometimes earlier."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int, limit: int = sys.maxsize) -> list[K]:
        """Removes and returns the keys whose deadline is not after `now_ms`, earliest first; the rest stays due."""
        due: list[K] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < limit:
            queued_ms, _, deadline = heappop(self._heap)
            if deadline.queued_ms != queued_ms or self._deadlines.get(deadline.key) is not deadline:
                continue
            if not deadline.is_due:
                del self._deadlines[deadline.key]
            elif deadline.due_ms > now_ms:
                self._push(deadline)
            else:
                del self._deadlines[deadline.key]
                self._due_count -= 1
                due.append(deadline.key)
        return due

    def _forget_cancelled(self) -> None:
        """A cancelled deadline may have been far off, so that members that come and go leave more and more entries."""
        self._deadlines = {key: deadline for key, deadline in self._deadlines.items() if deadline.is_due}
        self._heap = []
        for deadline in self._deadlines.values():
            self._push(deadline)

    def _push(self, deadline: _Deadline[K]) -> None:
        self._sequence += 1
        deadline.queued_ms = deadline.due_ms
        heappush(self._heap, (deadline.due_ms, self._sequence, deadline))
