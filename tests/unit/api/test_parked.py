"""What becomes of a parked request when its decision is there: the answer, the error it is refused with, or a fault."""

from __future__ import annotations

import asyncio

import pytest

from tidelog.api.parked import answer_when_done
from tidelog.model.errors import BrokerError, ErrorCode

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_the_decision_is_the_answer() -> None:
    decision: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    later = answer_when_done(decision)
    await asyncio.sleep(0)
    assert not later.is_settled
    decision.set_result(5)
    assert await later.wait() == 5


async def test_an_error_of_the_coordinator_is_its_fault() -> None:
    decision: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    later = answer_when_done(decision)
    decision.set_exception(BrokerError(ErrorCode.NOT_COORDINATOR))
    with pytest.raises(BrokerError) as refused:
        await later.wait()
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


async def test_a_decision_that_is_given_up_fails_the_request() -> None:
    decision: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    later = answer_when_done(decision)
    decision.cancel()
    await later.settled()
    assert isinstance(later.fault, asyncio.CancelledError)
