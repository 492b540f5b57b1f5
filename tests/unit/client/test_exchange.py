"""How a request comes to its answer: redirects, other nodes, pauses, and when a publish must not be repeated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from tidelog.client import calls
from tidelog.client.bounds import LEADERS_MAX
from tidelog.client.calls import Answer, Request
from tidelog.client.errors import RequestFailed
from tidelog.client.exchange import PATIENCE, Patience, Pause, Result, Send, Tokens, Unreachable, exchange
from tidelog.client.nodes import Address, Nodes, order, parse_address

ADDRESSES = ("a:1", "b:2", "c:3")
FETCH = calls.fetch("t", 0, {"offset": 0, "wait": 500})
PUBLISH = calls.publish("t", 0, b"x", None, (), "all")
REFUSED = Unreachable("cannot be reached", was_sent=False)
LOST = Unreachable("did not answer", was_sent=True)


def answer(status: int, kafka_error: str | None = None, **headers: str) -> Answer:
    body = {"code": status, "message": "so it is", "kafkaError": kafka_error}
    return Answer(status, {name.replace("_", "-"): text for name, text in headers.items()}, json.dumps(body).encode())


def moved(address: str, path: str = "/there?x=1") -> Answer:
    return answer(307, location=f"http://{address}{path}")


OK = answer(200)


class World:
    """Answers in the order given, to requests of one session."""

    def __init__(self) -> None:
        self.nodes = Nodes("s", ADDRESSES)
        self.first = str(self.nodes.candidates(None)[0])
        self.tokens = Tokens(None)
        self.now_s = 0.0
        self.sends: list[Send] = []
        self.pauses: list[float] = []

    def ask(self, request: Request, results: Sequence[Result], patience: Patience = PATIENCE) -> Answer:
        self.sends, self.pauses = [], []
        waiting = list(results)
        steps = exchange(request, self.nodes, self.tokens, patience, lambda: self.now_s, lambda: 1.0)
        result: Result = None
        try:
            while True:
                step = steps.send(result)
                if isinstance(step, Pause):
                    self.pauses.append(step.seconds)
                    self.now_s += step.seconds
                    result = None
                else:
                    self.sends.append(step)
                    result = waiting.pop(0)
                    self.now_s += 0.01
        except StopIteration as end:
            assert not waiting
            found: Answer = end.value
            return found

    @property
    def asked(self) -> list[str]:
        return [str(each.address) for each in self.sends]


def test_reads_stay_with_one_node() -> None:
    world = World()
    for _ in range(3):
        assert world.ask(FETCH, [OK]) == OK
        assert world.asked == [world.first]
    [sent] = world.sends
    assert sent.request == FETCH
    assert sent.timeout_s == PATIENCE.attempt_s + 0.5


def test_sessions_spread_and_only_those_of_a_node_that_goes_move() -> None:
    addresses = [Address(f"node-{number}", 80) for number in range(5)]
    chosen = {number: order(str(number), addresses)[0] for number in range(500)}
    for address in addresses:
        assert 60 < sum(each == address for each in chosen.values()) < 140
    for number, address in chosen.items():
        if address != addresses[2]:
            assert order(str(number), [each for each in addresses if each != addresses[2]])[0] == address


def test_a_redirect_is_followed_at_once_with_the_body() -> None:
    world = World()
    assert world.ask(PUBLISH, [moved("d:4"), OK]) == OK
    assert world.asked == [world.first, "d:4"]
    assert world.sends[1].request.body == b"x"
    assert world.sends[1].request.path == "/there?x=1"
    assert world.pauses == []
    # The leader is asked first from then on, as long as it answers.
    world.ask(PUBLISH, [OK])
    assert world.asked == ["d:4"]
    assert world.sends[0].request.path == PUBLISH.path
    world.ask(PUBLISH, [REFUSED, OK])
    assert world.asked == ["d:4", world.first]
    world.ask(PUBLISH, [OK])
    assert world.asked == [world.first]


def test_a_read_that_was_redirected_comes_back_to_its_node() -> None:
    world = World()
    world.ask(FETCH, [moved("d:4"), OK])
    world.ask(FETCH, [OK])
    assert world.asked == [world.first]


def test_redirects_in_a_circle_end() -> None:
    world = World()
    with pytest.raises(RequestFailed, match="do not agree on a leader") as failed:
        world.ask(PUBLISH, [moved("b:2")] * 100)
    assert failed.value.status == 307
    assert len(world.pauses) >= 10


@pytest.mark.parametrize("location", ["", "ftp://x/", "http://", "/only/a/path"])
def test_a_redirect_to_nowhere_is_an_error(location: str) -> None:
    with pytest.raises(RequestFailed, match="which is no node"):
        World().ask(PUBLISH, [answer(307, location=location)])


@pytest.mark.parametrize("result", [REFUSED, LOST, answer(500), answer(503), answer(504), answer(429)])
def test_a_read_is_repeated_at_other_nodes(result: Result) -> None:
    world = World()
    assert world.ask(FETCH, [result, result, OK]) == OK
    assert sorted(world.asked) == sorted(ADDRESSES)
    assert world.pauses[0] < world.pauses[1]


@pytest.mark.parametrize("status", [400, 403, 404, 410, 413, 416])
@pytest.mark.parametrize("request_", [FETCH, PUBLISH])
def test_what_the_client_has_got_wrong_is_not_repeated(request_: Request, status: int) -> None:
    world = World()
    with pytest.raises(RequestFailed, match=f"{status}: so it is") as failed:
        world.ask(request_, [answer(status, "SOME_ERROR")])
    assert (failed.value.status, failed.value.message) == (status, "so it is")
    assert failed.value.kafka_error == "SOME_ERROR"
    assert not failed.value.may_be_written


@pytest.mark.parametrize("result", [REFUSED, answer(429), answer(503, "NOT_ENOUGH_REPLICAS"), answer(503)])
def test_a_publish_that_was_not_written_is_repeated(result: Result) -> None:
    world = World()
    assert world.ask(PUBLISH, [result, OK]) == OK


@pytest.mark.parametrize("result", [LOST, answer(500), answer(504), answer(503, "KAFKA_STORAGE_ERROR")])
def test_a_publish_that_may_be_written_is_not_repeated(result: Result) -> None:
    world = World()
    with pytest.raises(RequestFailed) as failed:
        world.ask(PUBLISH, [result])
    assert failed.value.may_be_written
    assert world.ask(PUBLISH, [LOST, OK], Patience(may_duplicate=True)) == OK


def test_it_ends_in_time() -> None:
    world = World()
    with pytest.raises(RequestFailed, match="cannot be reached") as failed:
        world.ask(FETCH, [REFUSED] * 100, Patience(timeout_s=10))
    assert failed.value.status == 0
    assert 8 < world.now_s <= 10
    assert all(pause <= 1 for pause in world.pauses)
    with pytest.raises(RequestFailed, match="no time"):
        world.ask(FETCH, [], Patience(timeout_s=0))


def test_a_publish_has_all_the_time_for_one_attempt() -> None:
    world = World()
    world.ask(PUBLISH, [OK])
    assert world.sends[0].timeout_s == PATIENCE.timeout_s


def token_of(send: Send) -> str | None:
    return send.request.headers.get("X-Tidelog-Session")


def with_token(status: int, token: str) -> Answer:
    return answer(status, x_tidelog_session=token)


def test_the_last_token_is_sent() -> None:
    world = World()
    world.ask(PUBLISH, [with_token(200, "A")])
    assert token_of(world.sends[0]) is None
    world.ask(FETCH, [LOST, with_token(200, "B")])
    assert [token_of(send) for send in world.sends] == ["A", "A"]
    with pytest.raises(RequestFailed):
        world.ask(FETCH, [with_token(410, "C")])
    world.ask(FETCH, [OK])
    assert token_of(world.sends[0]) == "C"
    assert str(world.tokens) == "C"


def test_tokens_of_requests_side_by_side_are_all_kept() -> None:
    tokens = Tokens("A")
    tokens.note("A", "B")
    tokens.note("A", "C")
    tokens.note("A", None)
    assert str(tokens) == "B,C"
    tokens.note("B", "D")
    assert str(tokens) == "C,D"
    tokens.note("C,D", "E")
    assert str(tokens) == "E"
    tokens.note("E", "E")
    assert str(tokens) == "E"


def test_known_leaders_are_bounded() -> None:
    nodes = Nodes("s", ADDRESSES)
    for number in range(LEADERS_MAX + 1):
        nodes.leads(("t", number), Address("d", 4))
    assert len(nodes.candidates(("t", 0))) == 3
    assert len(nodes.candidates(("t", LEADERS_MAX))) == 4


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("a:1", ("a", 1)),
        ("http://a:1", ("a", 1)),
        ("http://a", ("a", 80)),
        ("[::1]:8080", ("::1", 8080)),
        ("http://[::1]:8080/x?y", ("::1", 8080)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert parse_address(str(Address(*address))) == address


@pytest.mark.parametrize("text", ["", "https://a:1", "http://:80", "a:b", "a:99999"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError):
        Nodes("s", [text])


def test_a_session_needs_a_node() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        Nodes("s", [])


def test_headers_are_those_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.ask(calls.publish("t", 0, b"x", b"k", [("trace", b"1")], "1"), [OK])
    sent: Mapping[str, str] = world.sends[0].request.headers
    assert sent == {"Content-Type": "application/octet-stream", "X-Key": "k", "X-Header-trace": "1"}
