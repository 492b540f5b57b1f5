"""The order of a stop, whatever the order of the start and whatever fails on the way."""

from __future__ import annotations

import asyncio
import random

import pytest

from tidelog.node.closing import Closing, Step


async def test_parts_are_closed_in_the_order_of_the_steps() -> None:
    closing, closed = Closing(), list[Step]()

    async def wait_and_close(step: Step) -> None:
        await asyncio.sleep(0)
        closed.append(step)

    steps = list(Step)
    for step in random.Random(1).sample(steps, len(steps)):
        closing.note(step, lambda step=step: wait_and_close(step))
    await closing.close()
    assert closed == steps
    await closing.close()
    assert closed == steps, "what is closed is closed once"


async def test_how_a_part_is_closed_depends_on_how_far_it_has_come() -> None:
    closing, closed = Closing(), list[str]()
    closing.note(Step.DIRECTORY, lambda: closed.append("as it was"))
    closing.note(Step.DIRECTORY, lambda: closed.append("in good order"))
    await closing.close()
    assert closed == ["in good order"]


async def test_a_part_that_fails_does_not_keep_the_others_open() -> None:
    closing, closed = Closing(), list[str]()

    async def fail(text: str) -> None:
        closed.append(text)
        raise OSError(text)

    closing.note(Step.GROUPS, lambda: fail("first"))
    closing.note(Step.CLUSTER, lambda: fail("second"))
    closing.note(Step.THREADS, lambda: closed.append("threads"))
    with pytest.raises(OSError, match="first"):
        await closing.close()
    assert closed == ["first", "second", "threads"]


async def test_a_stop_that_is_given_up_can_be_taken_up_again() -> None:
    closing, closed = Closing(), list[str]()
    closing.note(Step.ANSWERS, lambda: asyncio.sleep(3600))
    closing.note(Step.THREADS, lambda: closed.append("threads"))
    stopping = asyncio.create_task(closing.close())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert closed == []
    await closing.close()
    assert closed == ["threads"]
