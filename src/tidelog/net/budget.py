"""How many bytes of requests a node holds at once, over all its connections.

A connection charges what it has read and releases it when the request is answered. When the budget is spent,
connections stop reading their sockets (TCP then holds the peers back) and are woken in turn when bytes come free.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Reader(Protocol):
    def resume_from_budget(self) -> None: ...


class ByteBudget:
    __slots__ = ("_waiting", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[Reader] = deque()

    @property
    def is_spent(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    def charge(self, byte_count: int) -> None:
        """Never refuses: the bytes have been read already. The caller looks at `is_spent` before it reads on."""
        self.used_bytes += byte_count

    def release(self, byte_count: int) -> None:
        self.used_bytes -= byte_count
        assert self.used_bytes >= 0, "more bytes released than charged"
        self.wake()

    def wake(self) -> None:
        """Those that wait are read again, as long as there is room."""
        while self._waiting and not self.is_spent:
            self._waiting.popleft().resume_from_budget()

    def wait(self, reader: Reader) -> None:
        self._waiting.append(reader)

    def forget(self, reader: Reader) -> None:
        if reader in self._waiting:
            self._waiting.remove(reader)


class PartOfBudget(ByteBudget):
    """What one door may hold of the budget that all doors share.

    A connection that waits is woken when the door releases bytes. That other doors have released some is seen when the
    door calls `wake`, which it does about once a second.
    """

    __slots__ = ("_whole",)

    def __init__(self, whole: ByteBudget, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self._whole = whole

    @property
    def is_spent(self) -> bool:
        return self.used_bytes >= self.limit_bytes or self._whole.is_spent

    def charge(self, byte_count: int) -> None:
        self._whole.charge(byte_count)
        super().charge(byte_count)

    def release(self, byte_count: int) -> None:
        self._whole.release(byte_count)
        super().release(byte_count)


class BudgetShare:
    """What one connection holds of the budget."""

    __slots__ = ("_budget", "_bytes_max", "_held_bytes", "_is_closed")

    def __init__(self, budget: ByteBudget, bytes_max: int) -> None:
        self._budget = budget
        self._bytes_max = bytes_max
        self._held_bytes = 0
        self._is_closed = False

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    @property
    def is_spent(self) -> bool:
        """The connection holds all that it may, or the node does."""
        return self._held_bytes >= self._bytes_max or self._budget.is_spent

    def charge(self, byte_count: int) -> None:
        self._held_bytes += byte_count
        self._budget.charge(byte_count)

    def release(self, byte_count: int) -> None:
        if not self._is_closed:
            self._held_bytes -= byte_count
            self._budget.release(byte_count)

    def close(self) -> None:
        """Releases everything. What is answered later holds nothing any more."""
        held_bytes, self._held_bytes = self._held_bytes, 0
        self._is_closed = True
        self._budget.release(held_bytes)
