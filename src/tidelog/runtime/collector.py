"""When the garbage collector of a node runs: in a quiet moment, and not in the middle of a burst.

Left alone, Python collects when so many more objects were made than dropped. What a request makes is dropped with its
answer; what stays is state, so it is the bursts that build state, a thousand consumers that join at once, that would be
walked again and again while clients wait. Cycles of dead objects, which are all that a collection can free, hardly ever
come about here, so it can wait until there is time. A node that is never quiet is collected all the same, and Python's
own way stays on as a bound for memory, with a young generation that is larger.

For a process that is a node and nothing else: the collector belongs to all of the process.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Final

LOOK_S: Final = 0.25
YOUNG_MIN: Final = 1000
"""With fewer new objects than this a collection is not worth it."""
YOUNG_MAX: Final = 100_000
"""At so many new objects a collection begins at once, even in a busy moment. It takes some twenty milliseconds."""
GROWTH_MIN: Final = 50_000
"""New objects since everything was collected before all is collected again; half of what was left then, if more."""
QUIET_SHARE: Final = 0.1
"""Of a core: less work than this is quiet."""
YOUNG, ALL = 1, 2
"""Generations: what was made since the last time, and everything."""
PATIENCE_LOOKS: Final = {YOUNG: 8, ALL: 240}
"""How often a generation is put off when it never gets quiet: two seconds, and a minute."""


class CollectionPolicy:
    """What to collect now, if anything."""

    def __init__(self) -> None:
        self._put_off = {YOUNG: 0, ALL: 0}
        self._grown = 0
        """Objects that were new in collections since the last one of everything."""
        self._left = 0
        """Objects after that one."""

    def choose(self, young: int, *, is_quiet: bool) -> int | None:
        """`young`: how many more objects were made than dropped since the last collection."""
        for generation, is_due in ((ALL, self._is_all_due(young)), (YOUNG, young >= YOUNG_MIN)):
            if not is_due:
                self._put_off[generation] = 0
            elif is_quiet or self._put_off[generation] >= PATIENCE_LOOKS[generation]:
                self._grown += young
                self._put_off[YOUNG] = self._put_off[generation] = 0
                return generation
            else:
                self._put_off[generation] += 1
        return None

    def all_collected(self, left: int) -> None:
        self._grown = 0
        self._left = left

    def _is_all_due(self, young: int) -> bool:
        return self._grown + young >= max(GROWTH_MIN, self._left // 2)


class Collector:
    """Takes the collections of this process in hand, from `start` on, for as long as the loop runs."""

    def __init__(self, *, look_s: float = LOOK_S, cpu_s: Callable[[], float] = time.process_time) -> None:
        self._policy = CollectionPolicy()
        self._look_s = look_s
        self._cpu_s = cpu_s
        self._loop = asyncio.get_running_loop()
        self._looked_at = (0.0, 0.0)

    def start(self) -> None:
        # What exists now lives as long as the process, and need not be walked ever again.
        gc.freeze()
        gc.set_threshold(YOUNG_MAX, *gc.get_threshold()[1:])
        self._look_later()

    def _look_later(self) -> None:
        self._looked_at = self._loop.time(), self._cpu_s()
        self._loop.call_later(self._look_s, self.look)

    def look(self) -> None:
        then_s, cpu_then_s = self._looked_at
        is_quiet = self._cpu_s() - cpu_then_s < QUIET_SHARE * (self._loop.time() - then_s)
        generation = self._policy.choose(gc.get_count()[0], is_quiet=is_quiet)
        if generation is not None:
            gc.collect(generation)
        if generation == ALL:
            self._policy.all_collected(len(gc.get_objects()))
        self._look_later()
