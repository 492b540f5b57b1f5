"""Answers of requests that a coordinator has parked: settled when its decision is there, without a task for each."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from tidelog.net.later import Later

R = TypeVar("R")


def answer_when_done(decision: asyncio.Future[R]) -> Later[R]:
    later: Later[R] = Later()

    def settle(done: asyncio.Future[R]) -> None:
        if done.cancelled():
            later.fail(asyncio.CancelledError())
            return
        fault = done.exception()
        if fault is None:
            later.answer(done.result())
        else:
            later.fail(fault)

    decision.add_done_callback(settle)
    return later
