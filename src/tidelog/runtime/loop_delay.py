"""How late the event loop comes to its timers: the time that everything else on it has to wait as well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LOOK_S: Final = 0.1


class LoopDelay:
    """Sets a timer again and again from `start` to `stop`, and reports how late each one came."""

    def __init__(self, observe: Callable[[float], None], *, look_s: float = LOOK_S) -> None:
        self._observe = observe
        self._look_s = look_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        due_s = self._loop.time() + self._look_s
        self._timer = self._loop.call_at(due_s, self._look, due_s)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, due_s: float) -> None:
        self._observe(max(0.0, self._loop.time() - due_s))
        self.start()
