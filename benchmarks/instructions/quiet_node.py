"""`tidelog serve` that does nothing by the clock: run as a program of its own, with the Python of any checkout.

Under callgrind a request takes many times longer than in real life, so what a node does every second would be counted
many times too often, and more often the busier the machine is. Timers of a quarter of a second and more come a thousand
times later here, the garbage collector, which a node runs in its quiet moments, does not run, and every duration that a
node measures for its statistics is 0: it searches longer for the place of a long one.
"""

from __future__ import annotations

import gc
import sys
import time
from asyncio import TimerHandle
from collections.abc import Callable
from contextvars import Context
from itertools import repeat
from typing import TypeVarTuple
from unittest.mock import patch

import uvloop

DELAYED_FROM_S = 0.25
DELAYED_TIMES = 1000

A = TypeVarTuple("A")


class QuietLoop(uvloop.Loop):
    def call_later(
        self, delay: float, callback: Callable[[*A], object], *args: *A, context: Context | None = None
    ) -> TimerHandle:
        delay_s = delay if delay < DELAYED_FROM_S else delay * DELAYED_TIMES
        return super().call_later(delay_s, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*A], object], *args: *A, context: Context | None = None
    ) -> TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)


if __name__ == "__main__":
    # A node looks by a timer whether it should collect, so with Python's own way off there is no collection at all.
    gc.disable()
    no_time = repeat(0.0).__next__
    with patch.object(uvloop, "new_event_loop", QuietLoop), patch.object(time, "perf_counter", no_time):
        from tidelog.cli.main import main

        sys.exit(main())
