"""An event loop in a thread of its own, for synchronous code that has asynchronous parts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from tidelog.node.event_loop import new_event_loop

T = TypeVar("T")


class LoopThread:
    """`start`, then `call` from any other thread, then `stop`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def start(self, loop_kind: str = "auto") -> None:
        """`loop_kind` is the setting `tidelog.loop`; ConfigError when there is no such loop here."""
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(loop_kind, ready), name=self._name, daemon=True)
        self._thread.start()
        try:
            ready.result()
        except BaseException:
            self.stop()
            raise

    def call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine function in the loop and returns what it returns."""
        assert self._loop is not None, "the thread was started"
        return asyncio.run_coroutine_threadsafe(function(), self._loop).result()

    def stop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
        if thread is not None:
            thread.join()

    def _run(self, loop_kind: str, ready: Future[None]) -> None:
        try:
            loop = new_event_loop(loop_kind)
        except BaseException as error:
            ready.set_exception(error)
            return
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            self._loop = runner.get_loop()
            ready.set_result(None)
            self._loop.run_forever()
