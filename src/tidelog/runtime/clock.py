"""Time as the node's shells see it. Cores never import this: time is an argument of theirs."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    """Milliseconds since 1970, for timestamps that others see."""
    return int(time.time() * 1000)


def monotonic_s() -> float:
    """Seconds that only move forward, for measuring and for deadlines."""
    return time.monotonic()


def monotonic_ms() -> int:
    """The same in milliseconds, as cores count."""
    return time.monotonic_ns() // 1_000_000
