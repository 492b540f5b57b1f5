"""Looks for the next request for a while before the event loop sleeps, where that was asked for (`tidelog.poll.us`).

A core that has gone to sleep takes longer to wake than a small request takes to answer. While requests come one soon
after the other, as from a client that waits for each answer, the loop turns without sleeping; a request that comes
after a longer pause ends that, so that a node with little to do costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable

SOON = 2.5
"""Requests so many windows apart count as one soon after the other: some of that time is both sides waking up."""


class Polling:
    __slots__ = ("_call_soon", "_is_turning", "_last_read_s", "_perf_counter_s", "_window_s")

    def __init__(
        self, window_us: int, call_soon: Callable[[Callable[[], None]], object], perf_counter_s: Callable[[], float]
    ) -> None:
        self._window_s = window_us / 1e6
        self._call_soon = call_soon
        self._perf_counter_s = perf_counter_s
        self._last_read_s = 0.0
        self._is_turning = False

    def note_read(self) -> None:
        """A connection has received something."""
        now_s = self._perf_counter_s()
        is_soon = now_s - self._last_read_s <= self._window_s * SOON
        self._last_read_s = now_s
        if is_soon and not self._is_turning:
            self._is_turning = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        if self._perf_counter_s() - self._last_read_s <= self._window_s:
            self._call_soon(self._turn)
        else:
            self._is_turning = False
