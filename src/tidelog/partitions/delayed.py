"""Requests that wait: fetches for more bytes, produces for their commit.

Both wait for something a partition says about itself (its high watermark moved, it went away) or for their deadline,
whichever comes first. Wake-ups are gathered and looked at once per turn of the loop, so that a produce to a hundred
partitions wakes a waiting fetch once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tidelog.model.errors import BrokerError, ErrorCode

if TYPE_CHECKING:
    from tidelog.partitions.partition import Partition


class DelayedFetch:
    """Tries again whenever one of its partitions has something new, and a last time at its deadline."""

    __slots__ = ("_is_follower", "_is_scheduled", "_loop", "_partitions", "_timer", "_try_complete", "is_done")

    def __init__(
        self,
        partitions: Iterable[Partition],
        max_wait_ms: int,
        try_complete: Callable[[bool], bool],
        loop: asyncio.AbstractEventLoop,
        *,
        is_follower: bool = False,
    ) -> None:
        """`try_complete(is_last_chance)` answers the request and returns True, or returns False to wait on.

        A follower is woken by what is written, a consumer by what is committed."""
        self._partitions = list(partitions)
        self._try_complete = try_complete
        self._loop = loop
        self._is_scheduled = False
        self._is_follower = is_follower
        self.is_done = False
        for partition in self._partitions:
            (partition.follower_waiters if is_follower else partition.fetch_waiters).add(self)
        self._timer = loop.call_later(max_wait_ms / 1000, self._attempt, True)

    def wake(self) -> None:
        if not self._is_scheduled and not self.is_done:
            self._is_scheduled = True
            self._loop.call_soon(self._attempt, False)

    def _attempt(self, is_last_chance: bool) -> None:
        self._is_scheduled = False
        if not self.is_done and self._try_complete(is_last_chance):
            self.cancel()

    def cancel(self) -> None:
        self.is_done = True
        self._timer.cancel()
        for partition in self._partitions:
            (partition.follower_waiters if self._is_follower else partition.fetch_waiters).discard(self)


class DelayedProduce:
    """Waits until every partition it wrote to has committed what it wrote, or is known not to."""

    __slots__ = ("_complete", "_failures", "_timer", "_waiting", "is_done")

    def __init__(
        self,
        waits: dict[Partition, int],
        timeout_ms: int,
        complete: Callable[[dict[Partition, BrokerError]], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`waits`: partition and the offset its high watermark must reach. `complete` gets those that did not."""
        self._complete = complete
        self._waiting = set(waits)
        self._failures: dict[Partition, BrokerError] = {}
        self.is_done = False
        for partition, offset in waits.items():
            partition.commit_waiters.append((offset, self))
        self._timer = loop.call_later(timeout_ms / 1000, self._time_out)

    def partition_committed(self, partition: Partition) -> None:
        self._answered(partition)

    def partition_gone(self, partition: Partition, error: BrokerError) -> None:
        if not self.is_done:
            self._failures[partition] = error
            self._answered(partition)

    def gives_up_short_of_replicas(self, partition: Partition) -> bool:
        self.partition_gone(partition, BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        return True

    def _answered(self, partition: Partition) -> None:
        if self.is_done:
            return
        self._waiting.discard(partition)
        if not self._waiting:
            self._finish()

    def _time_out(self) -> None:
        for partition in self._waiting:
            self._failures[partition] = BrokerError(ErrorCode.REQUEST_TIMED_OUT)
        self._finish()

    def _finish(self) -> None:
        self.is_done = True
        self._timer.cancel()
        self._complete(self._failures)
