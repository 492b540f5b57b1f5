"""How tests wait: for a condition, until a deadline, and with a message that says what they waited for.

A missed deadline is a TimeoutError and not a failed assertion, because `make test` gives suites that drive other
software one more try after an error, and none after an assertion.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

WAIT_S = 60.0
INTERVAL_S = 0.01

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T],
    what: str | Callable[[], str],
    timeout_s: float = WAIT_S,
    interval_s: float = INTERVAL_S,
) -> T:
    """Return what the condition returned, once that is true.

    `what` completes "waited for", as a text or as a call that makes the text when the deadline has passed. A condition
    that waits by itself, such as the poll of a consumer, needs no interval.
    """
    deadline_s = time.monotonic() + timeout_s
    while not (found := condition()):
        _check(deadline_s, timeout_s, what)
        time.sleep(interval_s)
    return found


async def eventually(
    condition: Callable[[], T | Awaitable[T]],
    what: str | Callable[[], str],
    timeout_s: float = WAIT_S,
    interval_s: float = INTERVAL_S,
) -> T:
    """As `wait_until`, while the event loop goes on; the condition may be a coroutine function."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        answer = condition()
        found: T = await answer if inspect.isawaitable(answer) else answer
        if found:
            return found
        _check(deadline_s, timeout_s, what)
        await asyncio.sleep(interval_s)


def _check(deadline_s: float, timeout_s: float, what: str | Callable[[], str]) -> None:
    if time.monotonic() >= deadline_s:
        raise TimeoutError(f"waited {timeout_s:g} s for: {what if isinstance(what, str) else what()}")
