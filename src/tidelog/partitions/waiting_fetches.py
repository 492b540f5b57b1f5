"""Fetches that wait on a partition, in the order in which they came."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.partitions.delayed import DelayedFetch


class WaitingFetches(dict["DelayedFetch", None]):
    """A dictionary, because a set is gone through in the order of its members' addresses: the fetch that came first is
    answered first, and a simulation does the same each time it is run."""

    __slots__ = ()

    def add(self, fetch: DelayedFetch) -> None:
        self[fetch] = None

    def discard(self, fetch: DelayedFetch) -> None:
        self.pop(fetch, None)
