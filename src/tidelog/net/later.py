"""An answer of a handler that is not there yet: the typed response comes later, or a fault instead of it.

The door through which the request came says what happens then (`when_settled`): the Kafka listener encodes the response
and completes the reply that its connection waits for, which is this same object; another door wakes its own waiter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from tidelog.net.reply import PendingReply
from tidelog.runtime.tasks import BackgroundTasks

R = TypeVar("R")


class Later(PendingReply, Generic[R]):
    """Settled once, by `answer` or by `fail`."""

    __slots__ = ("_finish", "fault", "is_settled", "response")

    def __init__(self, *, overlaps: bool = False) -> None:
        super().__init__(overlaps=overlaps)
        self.response: R | None = None
        """None when it was answered: the request takes no answer."""
        self.fault: BaseException | None = None
        self.is_settled = False
        self._finish: Callable[[Later[R]], None] | None = None

    def answer(self, response: R | None) -> None:
        self.response = response
        self._settle()

    def fail(self, fault: BaseException) -> None:
        """Whatever a handler raises while its caller waits: the caller is answered or its connection is closed."""
        self.fault = fault
        self._settle()

    def _settle(self) -> None:
        assert not self.is_settled, "a request is answered once"
        self.is_settled = True
        # Nothing waits any more that could be given up.
        self.on_abandoned = None
        if self._finish is not None:
            self._finish(self)

    def when_settled(self, finish: Callable[[Later[R]], None]) -> None:
        """`finish` is called once, at once if the answer is there already."""
        self._finish = finish
        if self.is_settled:
            finish(self)

    async def settled(self) -> None:
        """Returns when `response` or `fault` is there, for a caller that is a coroutine."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake(_: Later[R]) -> None:
            if not done.done():
                done.set_result(None)

        self.when_settled(wake)
        try:
            await done
        except asyncio.CancelledError:
            if self.on_abandoned is not None:
                self.on_abandoned()
            raise

    async def wait(self) -> R | None:
        """The response; raises the fault."""
        await self.settled()
        if self.fault is not None:
            raise self.fault
        return self.response


def answer_from(work: Coroutine[Any, Any, R | None], tasks: BackgroundTasks, *, overlaps: bool = False) -> Later[R]:
    """What the coroutine returns is the answer, and None where none is owed. The owner of its task may end it."""
    later: Later[R] = Later(overlaps=overlaps)
    tasks.start(_settle(work, later), "request", is_awaited=True)
    return later


async def _settle(work: Coroutine[Any, Any, R | None], later: Later[R]) -> None:
    try:
        response = await work
    except asyncio.CancelledError as cancelled:
        later.fail(cancelled)
        raise
    except Exception as fault:
        later.fail(fault)
    else:
        later.answer(response)
