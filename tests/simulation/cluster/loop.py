"""An asyncio event loop in virtual time for all processes of a world: what it is asked to do becomes the world's."""

from __future__ import annotations

import asyncio
import socket
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextvars import Context, copy_context
from typing import Any

from tests.simulation.cluster.process import PROCESS, Process, current_process
from tests.simulation.disk import DiskFaults
from tests.simulation.world import Violation, World

WAITS_AT_THE_END_MAX = 100


class VirtualLoop(asyncio.AbstractEventLoop):
    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: list[asyncio.Task[Any]] = []
        """All there ever were: what is collected in between would run its `finally` at a moment of its own choosing."""

    # -- time ----------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        process = PROCESS.get()
        return self._world.now_ms / 1000 if process is None else process.clock.now_s

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._schedule(0.0, handle, context)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        process = context.get(PROCESS)
        delay_ms = when * 1000 - self._world.now_ms if process is None else process.clock.world_delay_ms(when * 1000)
        self._schedule(delay_ms, handle, context)
        return handle

    def _schedule(self, delay_ms: float, handle: asyncio.Handle, context: Context) -> None:
        process = context.get(PROCESS)

        def fire() -> None:
            if handle.cancelled() or (process is not None and not process.is_alive):
                return
            if process is not None and process.is_stopped:
                process.backlog.append(fire)
                return
            handle._run()

        self._world.after(delay_ms, fire)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It will find itself cancelled."""

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        used = DiskThreads(current_process()) if executor is None else executor
        return asyncio.wrap_future(used.submit(func, *args), loop=self)

    def abandon(self) -> None:
        """The world is over: tasks that were under way go no further."""
        with warnings.catch_warnings():
            # Some never began.
            warnings.simplefilter("ignore", RuntimeWarning)
            self._world.end()
            self._close_tasks()

    def _close_tasks(self) -> None:
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task._log_traceback = False  # type: ignore[attr-defined]
            for _ in range(WAITS_AT_THE_END_MAX):
                # A coroutine that awaits something more on its way out is closed again.
                try:
                    task.get_coro().close()
                    break
                except Exception:
                    continue
        self._tasks.clear()

    # -- the rest of what is asked of a loop ---------------------------------------------------------------------------

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Violation):
            raise error
        handle = context.get("handle")
        process = PROCESS.get() if handle is None else handle._context.get(PROCESS)
        self._world.note(process, f"unexpected: {context.get('message')}: {error!r}")
        if process is not None and process.is_alive and not isinstance(error, asyncio.CancelledError):
            failure = Violation(f"{process}: {context.get('message')}: {error!r}")
            failure.__cause__ = error
            self._world.failure = failure

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False


class DiskThreads(Executor):
    """The threads of one process: work is done when it is asked for, and reported some time after, like a slow disk.

    What was synced meanwhile counts from its report on.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        process = self._process
        done: Future[Any] = Future()
        error: BaseException | None = None
        result = None
        with process.files.syncing() as sync:
            try:
                result = fn(*args, **kwargs)
            except Exception as raised:
                error = raised
        faults: DiskFaults = process.files.faults
        delay_ms = self._world.random.uniform(faults.sync_min_ms, faults.sync_max_ms)
        if self._world.random.random() < faults.stall:
            delay_ms *= 100

        def finish() -> None:
            sync.finish()
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)

        asyncio.get_running_loop().call_later(delay_ms / 1000, finish)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Threads that do nothing need no end."""
