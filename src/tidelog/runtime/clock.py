"""Time as the node's shells see it. Cores never import this: they are told the time."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    """Milliseconds since 1970, for timestamps that others see."""
    return time.time_ns() // 1_000_000


monotonic_s = time.monotonic
"""Seconds that only move forward, for measuring and for deadlines."""


def monotonic_ms() -> int:
    """The same in milliseconds, as cores count."""
    return time.monotonic_ns() // 1_000_000
