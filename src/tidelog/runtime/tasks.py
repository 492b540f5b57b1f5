"""Background tasks and their owner.

The event loop holds tasks weakly, and the fault of a task that is not awaited is lost. An owner holds its tasks until
they end, logs their faults, and cancels them when it stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tidelog.telemetry.logs import get_logger

logger = get_logger("tidelog.tasks")

T = TypeVar("T")


class BackgroundTasks:
    """The tasks of one owner. All methods belong to the event loop; after `close` tasks can be started again."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], bool] = {}
        """Tasks that have not ended, in the order of their start, and whether their faults are logged here."""

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T], name: str, *, is_awaited: bool = False) -> asyncio.Task[T]:
        """Runs `work` until it ends or the owner closes. `name` says in the log what failed, so it has no data in it.

        With `is_awaited` the caller handles the task's fault, and nothing is logged.
        """
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = not is_awaited
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        is_logged = self._tasks.pop(task)
        if task.cancelled():
            return
        # Retrieved for awaited tasks too: the caller may have gone away.
        if task.exception() is not None and is_logged:
            try:
                task.result()
            except Exception:
                logger.exception_limited("background task failed", limit_by=("task",), task=task.get_name())

    async def finished(self) -> None:
        """Returns when no task is running."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def cancel(self) -> None:
        """Asks every task to end, for owners that stop without waiting."""
        for task in list(self._tasks):
            task.cancel()

    async def close(self) -> None:
        """Cancels all tasks and returns when they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
