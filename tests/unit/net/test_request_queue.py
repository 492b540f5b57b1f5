"""Requests and answers of one connection, as frames in and decisions out."""

from __future__ import annotations

import random

import pytest

from tidelog.model import limits
from tidelog.net.budget import BudgetShare, ByteBudget
from tidelog.net.outgoing import Outgoing
from tidelog.net.reply import Part, PendingReply
from tidelog.net.request_queue import RequestQueue
from tidelog.telemetry.metrics import NodeMetrics

HELD = 100
"""Bytes of every request."""


class Exchange:
    """A connection without a socket: a request's content is its reply, or names the reply that comes later."""

    def __init__(self, *, budget_bytes: int = 1 << 20, connection_bytes_max: int = 1 << 20, requests_max: int = 1000):
        self.metrics = NodeMetrics()
        self.outgoing = Outgoing(self.metrics)
        self.budget = ByteBudget(budget_bytes)
        self.queue = RequestQueue(BudgetShare(self.budget, connection_bytes_max), requests_max, self.outgoing)
        self.started: list[bytes] = []
        self.pending: dict[bytes, PendingReply] = {}

    def receive(self, *contents: bytes) -> None:
        self.queue.received(HELD * len(contents))
        self.queue.add([(content, 0) for content in contents])

    def turn(self, *, is_due: bool = False) -> bool:
        """Starts what may start; whether the connection has to come back for more."""
        assert self.queue.begin_turn(is_due)
        while (request := self.queue.next_request()) is not None:
            self.start(bytes(request[0]))
        return self.queue.end_turn()

    def start(self, content: bytes) -> None:
        self.started.append(content)
        if content.startswith(b"wait"):
            reply = self.pending[content] = PendingReply(overlaps=content.endswith(b"overlap"))
            self.queue.wait_for(reply, HELD)
        else:
            self.queue.answer(content, HELD)

    def complete(self, content: bytes, *parts: Part) -> bool:
        self.pending[content].complete(list(parts) or [content])
        return self.queue.collect()

    def sent(self) -> list[bytes]:
        """The replies that are ready, without their sizes."""
        if not self.outgoing.parts:
            return []
        data, replies = self.outgoing.take_bytes(), []
        while data:
            size = int.from_bytes(data[:4], "big")
            replies.append(data[4 : 4 + size])
            data = data[4 + size :]
        return replies


def test_replies_keep_the_order_of_their_requests() -> None:
    exchange = Exchange()
    exchange.receive(b"one", b"wait, overlap", b"two", b"three")
    assert not exchange.turn()
    assert exchange.started == [b"one", b"wait, overlap", b"two", b"three"]
    assert exchange.sent() == [b"one"]
    assert exchange.complete(b"wait, overlap", b"late")
    assert exchange.sent() == [b"late", b"two", b"three"]
    assert exchange.queue.is_empty
    assert exchange.budget.used_bytes == 0


def test_a_reply_that_does_not_overlap_holds_back_what_follows() -> None:
    exchange = Exchange()
    exchange.receive(b"wait", b"next")
    exchange.turn()
    assert exchange.started == [b"wait"]
    assert exchange.complete(b"wait")
    exchange.turn()
    assert exchange.sent() == [b"wait", b"next"]


def test_a_later_reply_waits_for_the_earlier_one() -> None:
    exchange = Exchange()
    exchange.receive(b"wait, overlap", b"wait")
    exchange.turn()
    assert not exchange.complete(b"wait"), "an earlier request has no answer yet"
    assert exchange.sent() == []
    assert exchange.complete(b"wait, overlap")
    assert exchange.sent() == [b"wait, overlap", b"wait"]


def test_no_turn_begins_inside_of_another() -> None:
    exchange = Exchange()
    exchange.receive(b"wait, overlap", b"completer", b"follower")
    queue = exchange.queue
    assert queue.begin_turn(False)
    for _ in range(2):
        request = queue.next_request()
        assert request is not None
        if request[0] == b"completer":
            assert exchange.complete(b"wait, overlap")
            assert not queue.begin_turn(False), "what follows would be answered before this request"
        exchange.start(bytes(request[0]))
    queue.end_turn()
    exchange.turn()
    assert exchange.sent() == [b"wait, overlap", b"completer", b"follower"]


def test_a_request_that_owes_no_answer_sends_nothing() -> None:
    exchange = Exchange()
    exchange.receive(b"wait, overlap", b"")
    queue = exchange.queue
    queue.begin_turn(False)
    assert queue.next_request() is not None
    exchange.start(b"wait, overlap")
    assert queue.next_request() is not None
    queue.answer(None, HELD)
    queue.end_turn()
    assert exchange.complete(b"wait, overlap")
    assert exchange.sent() == [b"wait, overlap"]
    assert exchange.budget.used_bytes == 0
    assert exchange.metrics.bytes_out == 4 + len(b"wait, overlap")


# -- turns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("requests", [limits.REQUESTS_PER_TURN_MAX, limits.REQUESTS_PER_TURN_MAX + 1])
def test_a_turn_has_so_many_requests(requests: int) -> None:
    exchange = Exchange()
    exchange.receive(*[b"x"] * requests)
    is_more = requests > limits.REQUESTS_PER_TURN_MAX
    assert exchange.turn() == is_more
    assert len(exchange.started) == limits.REQUESTS_PER_TURN_MAX
    if is_more:
        assert not exchange.turn(is_due=True)
        assert len(exchange.started) == requests


def test_a_turn_has_so_many_bytes_of_replies() -> None:
    exchange = Exchange()
    half = limits.REPLY_BYTES_PER_TURN_MAX // 2
    exchange.receive(b"x" * (half - 1), b"x" * half, b"x" * half, b"x")
    assert exchange.turn(), "one reply always fits, the one behind it does not"
    assert len(exchange.started) == 3
    assert not exchange.turn(is_due=True)
    assert len(exchange.started) == 4


def test_the_connection_is_asked_once_to_come_back() -> None:
    exchange = Exchange()
    exchange.receive(*[b"x"] * limits.REQUESTS_PER_TURN_MAX * 3)
    assert exchange.turn()
    assert not exchange.turn(), "it will come back anyway"
    assert not exchange.turn(is_due=True), "nothing is left"
    exchange.receive(*[b"x"] * (limits.REQUESTS_PER_TURN_MAX + 1))
    assert exchange.turn()


def test_replies_behind_one_that_is_not_there_are_few() -> None:
    exchange = Exchange()
    reply = b"x" * (limits.REPLY_BYTES_PER_TURN_MAX // 4)
    exchange.receive(b"wait, overlap", *[reply] * 8)
    assert not exchange.turn()
    assert len(exchange.started) == 5
    assert exchange.complete(b"wait, overlap")
    assert len(exchange.sent()) == 5
    while exchange.turn(is_due=True):
        pass
    assert len(exchange.started) == 9
    assert len(exchange.sent()) == 4


def test_a_request_that_comes_alone_passes_the_queue_by_only_if_that_is_empty() -> None:
    exchange = Exchange()
    queue = exchange.queue
    queue.received(HELD)
    assert queue.begin_alone()
    exchange.start(b"wait, overlap")
    assert not queue.end_turn()
    assert not queue.begin_alone(), "an answer is missing"
    exchange.complete(b"wait, overlap")
    exchange.outgoing.block()
    assert not queue.begin_alone(), "the peer does not read"
    exchange.outgoing.unblock()
    queue.mute()
    assert not queue.begin_alone()
    queue.unmute()
    exchange.receive(b"queued")
    assert not queue.begin_alone()
    exchange.turn()
    assert queue.begin_alone()


# -- flow control --------------------------------------------------------------------------------------------------


def test_a_muted_connection_starts_nothing_and_is_not_read() -> None:
    exchange = Exchange()
    exchange.receive(b"wait", b"next")
    exchange.turn()
    exchange.queue.mute()
    assert exchange.queue.must_pause()
    assert exchange.complete(b"wait")
    assert not exchange.turn()
    assert exchange.sent() == [b"wait"], "what was started is answered"
    assert exchange.started == [b"wait"]
    exchange.queue.unmute()
    assert not exchange.queue.must_pause()
    exchange.turn()
    assert exchange.sent() == [b"next"]


def test_nothing_is_started_while_the_peer_does_not_read() -> None:
    exchange = Exchange()
    exchange.outgoing.block()
    exchange.receive(b"request")
    assert exchange.queue.must_pause()
    assert not exchange.turn()
    assert exchange.started == []
    exchange.outgoing.unblock()
    exchange.turn()
    assert exchange.started == [b"request"]


@pytest.mark.parametrize(
    "limit", [{"budget_bytes": 2 * HELD}, {"connection_bytes_max": 2 * HELD}, {"requests_max": 2}], ids=str
)
def test_the_socket_is_left_unread_at_each_limit(limit: dict[str, int]) -> None:
    exchange = Exchange(**limit)
    exchange.receive(b"wait")
    exchange.turn()
    assert not exchange.queue.must_pause()
    exchange.receive(b"request")
    assert exchange.queue.must_pause()
    exchange.complete(b"wait")
    assert not exchange.queue.must_pause()


def test_what_others_hold_pauses_too() -> None:
    exchange = Exchange(budget_bytes=1000)
    exchange.budget.charge(1000)
    assert exchange.queue.must_pause()


# -- the end -------------------------------------------------------------------------------------------------------


def test_a_connection_that_is_gone_holds_nothing_and_abandons_what_it_waited_for() -> None:
    exchange = Exchange()
    exchange.receive(b"ready", b"wait 1 overlap", b"wait 2 overlap", b"wait", b"queued")
    exchange.turn()
    abandoned = []
    for content, reply in exchange.pending.items():
        reply.on_abandoned = lambda content=content: abandoned.append(content)
    exchange.pending[b"wait 2 overlap"].complete([b"completed behind another"])
    exchange.queue.close()
    assert abandoned == [b"wait 1 overlap", b"wait"]
    assert exchange.budget.used_bytes == 0
    assert exchange.queue.is_empty
    assert exchange.sent() == []
    assert not exchange.complete(b"wait 1 overlap"), "too late"
    assert not exchange.queue.begin_turn(True)
    assert not exchange.queue.begin_alone()


def test_a_request_that_ends_its_connection_releases_nothing_twice() -> None:
    exchange = Exchange()
    exchange.receive(b"one", b"two")
    queue = exchange.queue
    queue.begin_turn(False)
    assert queue.next_request() is not None
    queue.close()
    queue.answer(None, HELD)
    assert queue.next_request() is None
    assert exchange.budget.used_bytes == 0


def test_requests_that_were_not_started_can_be_dropped() -> None:
    exchange = Exchange()
    exchange.receive(b"wait", b"never started")
    exchange.turn()
    exchange.queue.drop_queued()
    exchange.complete(b"wait")
    exchange.turn()
    assert exchange.started == [b"wait"]


@pytest.mark.parametrize("seed", range(20))
def test_any_story_answers_every_request_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    exchange = Exchange(requests_max=10_000)
    kinds = ("quick %d", "wait %d", "wait %d overlap")
    contents = [(rng.choice(kinds) % number).encode() for number in range(rng.randrange(1, 300))]
    left, is_due = list(contents), False
    replies: list[bytes] = []
    while len(replies) < len(contents):
        action = rng.random()
        if action < 0.3 and left:
            count = rng.randrange(1, 90)
            exchange.receive(*left[:count])
            del left[:count]
        elif action < 0.5 and exchange.pending:
            exchange.complete(rng.choice(list(exchange.pending)))
            exchange.pending = {key: reply for key, reply in exchange.pending.items() if not reply.is_done}
        elif action < 0.6:
            (exchange.queue.mute if rng.random() < 0.3 else exchange.queue.unmute)()
        is_due = exchange.turn(is_due=is_due)
        replies += exchange.sent()
    assert replies == exchange.started == contents
    assert exchange.budget.used_bytes == 0
