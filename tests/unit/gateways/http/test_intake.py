"""Bytes in, requests out: order, bounds, and everything that is no request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.gateways.http.intake import Intake
from tidelog.gateways.http.messages import HttpError, Request, Response
from tidelog.gateways.http.routes import BodyRule, Content, Outcome, Route
from tidelog.model import limits

HOST = b"Host: node\r\n"


async def answer(*_: object) -> Response:
    return Response()


def route(bytes_max: int = 100, *, is_streamed: bool = False) -> Route:
    body = BodyRule((Content("text/plain", {"type": "string"}),), bytes_max, is_streamed)
    return Route("POST", "/", answer, "post", "Takes a body.", "tests", (Outcome(200, "Done."),), body=body)


class Reader:
    """An intake, and what it counts."""

    def __init__(self, taken_by: Route | None = None) -> None:
        self.arrived = 0
        self.taken = 0
        self.route = taken_by
        self.intake = Intake(self._find, self._count_arrived, self._count_taken)

    def _find(self, request: Request) -> None:
        if self.route is not None:
            request.take_route(self.route, ())

    def _count_arrived(self, size: int) -> None:
        self.arrived += size

    def _count_taken(self, size: int) -> None:
        self.taken += size

    def read(self, data: bytes) -> list[Request]:
        self.intake.feed(data)
        return list(self.intake.waiting)


def post(body: bytes, *, headers: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\n" + HOST + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_pipelined_requests_come_in_their_order() -> None:
    reader = Reader(route())
    first, second = reader.read(post(b"one") + post(b"two"))
    assert reader.intake.ready is first
    assert [first.body.whole(), second.body.whole()] == [b"one", b"two"]
    reader.intake.finish(first)
    assert reader.intake.ready is second
    assert reader.arrived == 6


@given(cut=st.integers(1, 90))
def test_a_request_may_come_in_any_two_parts(cut: int) -> None:
    data = post(b"hello", headers=b"X-Key: k\r\nX-Header-A: 1\r\n")
    reader = Reader(route())
    reader.read(data[:cut])
    [request] = reader.read(data[cut:])
    assert (request.method, request.path, request.body.whole()) == ("POST", "/", b"hello")
    assert request.headers["x-header-a"] == "1"
    assert request.fault is None


def test_a_request_is_ready_when_its_body_is_there_and_earlier_if_it_is_read_as_it_comes() -> None:
    data = post(b"hello")
    whole, streamed = Reader(route()), Reader(route(is_streamed=True))
    for reader in (whole, streamed):
        reader.read(data[:-2])
        assert reader.intake.is_arriving
    assert whole.intake.ready is None
    assert streamed.intake.ready is not None


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x00\x00", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Expect: a miracle\r\n\r\n", 417),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length : 3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b" folded\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff1\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n", 501),
        (post(b"x" * 101), 413),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n65\r\n" + b"x" * 101, 413),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999\r\n\r\n", 413),
        (b"GET /" + b"a" * limits.HTTP_TARGET_BYTES_MAX + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"a" * limits.HTTP_HEAD_BYTES_MAX + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"A%d: a\r\n" % i for i in range(200)), 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"a" * 2 * limits.HTTP_HEAD_BYTES_MAX, 431),
    ],
)
def test_what_is_refused_ends_the_connection(data: bytes, status: int) -> None:
    reader = Reader(route())
    [request] = reader.read(data)
    assert request.fault is not None
    assert request.fault.status == status
    assert not request.is_kept_alive
    assert reader.intake.ready is request
    assert reader.intake.is_full, "nothing more is read"


def test_the_answers_before_what_is_refused_are_still_owed() -> None:
    first, refused = Reader(route()).read(post(b"one") + b"nonsense\r\n\r\n")
    assert first.fault is None
    assert refused.fault is not None


@pytest.mark.parametrize(
    ("head", "is_kept_alive"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", False),
        (b"GET / HTTP/1.0\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", False),
    ],
)
def test_whether_a_request_may_follow(head: bytes, is_kept_alive: bool) -> None:
    [request] = Reader().read(head)
    assert request.fault is None
    assert request.is_kept_alive is is_kept_alive


def test_many_pipelined_requests_stop_the_reading() -> None:
    reader = Reader(route())
    reader.read(post(b"") * limits.HTTP_PIPELINED_REQUESTS_MAX)
    assert not reader.intake.is_full
    reader.read(post(b""))
    assert reader.intake.is_full


def test_a_body_that_its_handler_does_not_read_stops_the_reading() -> None:
    reader = Reader(route(is_streamed=True))
    size = limits.HTTP_STREAMED_BODY_BYTES_MAX + 1
    reader.read(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (10 * size) + b"x" * size)
    assert reader.intake.is_full


async def test_a_handler_reads_a_body_as_it_comes_and_makes_room() -> None:
    reader = Reader(route(is_streamed=True))
    data = post(b"hello world")
    [request] = reader.read(data[:-6])
    parts = request.body.parts()
    assert await anext(parts) == b"hello"
    reader.read(data[-6:])
    assert [part async for part in parts] == [b" world"]
    assert (reader.arrived, reader.taken) == (11, 11)


async def test_a_handler_learns_that_the_rest_will_not_come() -> None:
    reader = Reader(route(is_streamed=True))
    [request] = reader.read(post(b"hello")[:-2])
    reader.intake.end()
    with pytest.raises(HttpError, match="ends before it is complete"):
        [part async for part in request.body.parts()]


def test_a_body_that_was_not_read_to_its_end_makes_the_request_the_last() -> None:
    reader = Reader(route(is_streamed=True))
    [request] = reader.read(post(b"hello")[:-2])
    reader.intake.finish(request)
    assert not request.is_kept_alive


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    reader = Reader(route())
    for request in reader.read(data):
        assert request.fault is None or 400 <= request.fault.status < 600
