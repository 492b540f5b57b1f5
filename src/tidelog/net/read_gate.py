"""Whether the socket of a connection is read: back pressure is never a queue that grows, the socket is left unread."""

from __future__ import annotations

import asyncio

from tidelog.net.budget import ByteBudget
from tidelog.net.request_queue import RequestQueue
from tidelog.net.shared import SharedByListeners


class ReadGate:
    __slots__ = ("_budget", "_is_reading", "_metrics", "_queue", "_transport", "is_at_end")

    def __init__(self, transport: asyncio.Transport, queue: RequestQueue, shared: SharedByListeners) -> None:
        self._transport = transport
        self._queue = queue
        self._budget: ByteBudget = shared.budget
        self._metrics = shared.metrics
        self._is_reading = True
        self.is_at_end = False
        """The peer will send no more."""

    def maybe_pause(self) -> None:
        if self._is_reading and self._queue.must_pause() and not self._queue.is_closed:
            self._is_reading = False
            self._metrics.count_pause()
            self._transport.pause_reading()
            if self._budget.is_spent:
                self._budget.wait(self)

    def maybe_resume(self) -> None:
        if not self._is_reading and not self._queue.is_closed and not self._queue.must_pause():
            self._is_reading = True
            self._budget.forget(self)
            self._transport.resume_reading()

    def resume_from_budget(self) -> None:
        """The node has bytes free again."""
        self.maybe_resume()
        if not self._is_reading and not self._queue.is_closed and self._budget.is_spent:
            self._budget.wait(self)

    def end(self) -> None:
        self.is_at_end = True

    def close(self) -> None:
        self._budget.forget(self)
