"""What a peer gets when its parked request is decided: the answer, an error code, or a closed connection."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tidelog.api.context import RequestContext
from tidelog.api.parked import reply_when_done
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.reply import PendingReply

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Peer:
    """The part of a connection that a reply needs."""

    def __init__(self) -> None:
        self.closed: list[str] = []

    def close(self, reason: str, detail: str = "") -> None:
        self.closed.append(reason)


def context_of(peer: Peer | None) -> RequestContext:
    return RequestContext(cast(Any, None), 11, 9, 1, "client", "10.0.0.1", "PLAINTEXT", cast(Any, peer))


def refuse(error: BrokerError) -> int:
    return -int(error.code)


def encode(answer: int) -> bytes:
    return b"%d" % answer


async def settle() -> None:
    await asyncio.sleep(0)


async def test_an_answer_is_encoded_when_it_is_there() -> None:
    later: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    reply = reply_when_done(context_of(None), later, encode, refuse)
    await settle()
    assert not reply.is_done
    later.set_result(5)
    await settle()
    assert reply.buffers == [b"5"]


async def test_an_error_of_the_coordinator_is_an_answer_as_well() -> None:
    later: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    reply = reply_when_done(context_of(None), later, encode, refuse)
    later.set_exception(BrokerError(ErrorCode.NOT_COORDINATOR))
    await settle()
    assert reply.buffers == [b"-16"]


@pytest.mark.plain
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_fault_of_this_node_closes_the_connection_that_waits(is_cancelled: bool) -> None:
    later: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    peer = Peer()
    reply: PendingReply = reply_when_done(context_of(peer), later, encode, refuse)
    if is_cancelled:
        later.cancel()
    else:
        later.set_exception(ZeroDivisionError())
    await settle()
    assert not reply.is_done
    assert peer.closed == ["error"]
