from __future__ import annotations

from typing import Any, cast

import grpc
import pytest

from tidelog.api.dispatcher import Dispatcher
from tidelog.gateways.grpc.calls import Calls, CountedStream, InFlight, Large, Malformed, reader_of
from tidelog.gateways.grpc.generated.mq_pb2 import ProduceRequest
from tidelog.gateways.grpc.status import Refused, status_of
from tidelog.model.errors import BrokerError
from tidelog.model.limits import GRPC_CALLERS_REMEMBERED_MAX, GRPC_COUNTED_BYTES_MIN


def test_large_requests_are_told_from_small_ones() -> None:
    read = reader_of(ProduceRequest)
    small, large = ProduceRequest(value=b"v"), ProduceRequest(value=b"v" * GRPC_COUNTED_BYTES_MIN)
    assert read(small.SerializeToString()) == small
    counted = read(large.SerializeToString())
    assert isinstance(counted, Large)
    assert (counted.message, counted.size_bytes) == (large, large.ByteSize())


def test_bytes_that_are_no_message_refuse_the_call_when_they_are_looked_at() -> None:
    request = reader_of(ProduceRequest)(b"\xff")
    assert isinstance(request, Malformed)
    with pytest.raises(BrokerError):
        _ = request.topic


def test_what_is_beyond_the_limit_is_refused() -> None:
    in_flight = InFlight(bytes_max=10)
    in_flight.enter(6)
    in_flight.enter(4)
    with pytest.raises(Refused) as caught:
        in_flight.enter(1)
    assert status_of(caught.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
    in_flight.leave(4)
    in_flight.enter(4)


async def test_a_message_of_a_stream_counts_until_the_next() -> None:
    in_flight = InFlight(bytes_max=10)
    waiting: list[Any] = [Large("a", 10), Large("b", 10), "small"]

    async def read() -> Any:
        return waiting.pop(0)

    stream = CountedStream(read, in_flight)
    assert [await stream.read() for _ in range(2)] == ["a", "b"]
    with pytest.raises(Refused):
        in_flight.enter(1)
    assert await stream.read() == "small"
    in_flight.enter(10)
    stream.end()
    in_flight.leave(10)


class Connection:
    def __init__(self, port: int) -> None:
        self._port = port

    def peer(self) -> str:
        return f"ipv4:10.0.0.{self._port % 250}:{self._port}"


async def test_a_connection_has_one_caller_and_not_too_many_are_kept() -> None:
    calls = Calls(cast("Dispatcher", None), "PLAINTEXT")
    first = calls.access_of(Connection(0))
    assert calls.access_of(Connection(0)) is first
    assert first.caller.peer_host == "10.0.0.0"
    for port in range(1, GRPC_CALLERS_REMEMBERED_MAX):
        assert calls.access_of(Connection(port)) is not first
    assert calls.access_of(Connection(0)) is first
    calls.access_of(Connection(GRPC_CALLERS_REMEMBERED_MAX))
    assert calls.access_of(Connection(0)) is not first
