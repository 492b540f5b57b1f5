"""The owner of background tasks: keeps them, logs their faults, ends them."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest
from tests.waiting import eventually

from tidelog.runtime.tasks import BackgroundTasks

DEADLINE_S = 10.0


class Fault(Exception):
    pass


async def _fail() -> None:
    raise Fault("out of order")


async def test_a_task_is_held_until_it_ends() -> None:
    tasks = BackgroundTasks()
    going = asyncio.Event()
    done: list[bool] = []

    async def work() -> None:
        await going.wait()
        done.append(True)

    tasks.start(work(), "work")
    gc.collect()
    assert len(tasks) == 1
    going.set()
    async with asyncio.timeout(DEADLINE_S):
        await tasks.finished()
    assert done == [True]
    assert not tasks


async def test_a_fault_is_logged_once_with_the_name_of_the_task(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks()
    tasks.start(_fail(), "a fault that is logged")
    async with asyncio.timeout(DEADLINE_S):
        await tasks.finished()
    await tasks.close()
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert 'task="a fault that is logged"' in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], Fault)


async def test_a_fault_while_the_owner_closes_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await _fail()

    tasks.start(work(), "a fault while closing")
    await asyncio.sleep(0)
    await tasks.close()
    assert not tasks
    [record] = caplog.records
    assert 'task="a fault while closing"' in record.getMessage()


async def test_the_fault_of_an_awaited_task_belongs_to_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks()
    with pytest.raises(Fault):
        await tasks.start(_fail(), "awaited", is_awaited=True)
    # And nothing is logged where the caller has gone away.
    tasks.start(_fail(), "awaited", is_awaited=True)
    async with asyncio.timeout(DEADLINE_S):
        await tasks.finished()
    gc.collect()
    assert not caplog.records


async def test_the_result_is_there_for_who_awaits_it() -> None:
    async def work() -> int:
        return 7

    assert await BackgroundTasks().start(work(), "work", is_awaited=True) == 7


async def test_close_cancels_all_and_returns_when_they_have_ended(caplog: pytest.LogCaptureFixture) -> None:
    tasks = BackgroundTasks()
    ended: list[int] = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            ended.append(number)

    for number in range(3):
        tasks.start(work(number), "work")
    await asyncio.sleep(0)
    async with asyncio.timeout(DEADLINE_S):
        await tasks.close()
    assert sorted(ended) == [0, 1, 2]
    assert not tasks
    assert not caplog.records
    await tasks.close()


async def test_cancel_does_not_wait_and_tasks_can_be_started_again() -> None:
    tasks = BackgroundTasks()
    before = tasks.start(asyncio.Event().wait(), "work")
    tasks.cancel()
    after = tasks.start(asyncio.Event().wait(), "work")
    await eventually(lambda: len(tasks) == 1, "the end of the task that was cancelled")
    assert before.cancelled()
    assert not after.done()
    await tasks.close()
    assert after.cancelled()
