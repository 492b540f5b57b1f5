"""How a request comes to its answer: which node, where redirects lead, what is tried again and when. Pure.

`exchange` is a generator that yields what is to be done and is sent what came of it; `session.py` and
`async_session.py` do it. A read is repeated until the time is over. A publish is repeated only when it is known that
nothing was written, unless the session takes it that a record may be there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tidelog.client.bounds import ATTEMPTS_MAX, PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN, REDIRECTS_MAX
from tidelog.client.calls import Answer, Request, failure
from tidelog.client.errors import NO_ANSWER, RequestFailed
from tidelog.client.nodes import Address, Nodes, parse_address

TOKEN_HEADER: Final = "X-Tidelog-Session"
_WORTH_ANOTHER: Final = frozenset({429, 502, 503})
_WORTH_ANOTHER_READ: Final = _WORTH_ANOTHER | {500, 504}


class Patience(NamedTuple):
    timeout_s: float = 30.0
    """For a request with all its attempts."""
    attempt_s: float = 5.0
    """For one attempt of a read, beside what the node is asked to wait: then another node is asked."""
    may_duplicate: bool = False
    """Whether a publish is repeated too when its records may have been written."""


PATIENCE: Final = Patience()


class Send(NamedTuple):
    address: Address
    request: Request
    timeout_s: float


class Pause(NamedTuple):
    seconds: float


class Unreachable(NamedTuple):
    """No answer came."""

    reason: str
    was_sent: bool
    """Something of the request may have reached the node."""


Step = Send | Pause
Result = Answer | Unreachable | None
"""Of a Send one of the first two; None of a Pause."""


class Tokens:
    """The tokens of a session: one, or the last ones of requests side by side."""

    def __init__(self, token: str | None) -> None:
        self._tokens = [] if token is None else token.split(",")

    def __str__(self) -> str:
        return ",".join(self._tokens)

    def note(self, sent: str, given: str | None) -> None:
        """The new token stands for those that it was given for."""
        if given is None:
            return
        covered = sent.split(",")
        self._tokens = [token for token in self._tokens if token not in covered and token != given]
        self._tokens.append(given)


def exchange(
    request: Request,
    nodes: Nodes,
    tokens: Tokens,
    patience: Patience,
    now_s: Callable[[], float],
    chance: Callable[[], float],
) -> Generator[Step, Result, Answer]:
    """Returns the answer; raises RequestFailed. `chance` is between 0 and 1."""
    deadline_s = now_s() + patience.timeout_s
    candidates = nodes.candidates(request.writes_to)
    address, path = candidates[0], request.path
    redirects = 0
    failed = RequestFailed(NO_ANSWER, "there was no time for an answer")
    for attempt in range(1, ATTEMPTS_MAX + 1):
        left_s = deadline_s - now_s()
        if left_s <= 0:
            break
        sent = str(tokens)
        headers = {**request.headers, TOKEN_HEADER: sent} if sent else request.headers
        result = yield Send(
            address, request._replace(path=path, headers=headers), _attempt_s(request, patience, left_s)
        )
        if isinstance(result, Answer):
            tokens.note(sent, result.headers.get(TOKEN_HEADER.lower()))
            if result.status < 300:
                return result
        if isinstance(result, Answer) and result.status == 307 and redirects < REDIRECTS_MAX:
            redirects += 1
            address, path = _elsewhere(result)
            if request.writes_to is not None:
                nodes.leads(request.writes_to, address)
            continue
        failed, retry_after_s = _judge(request, address, result)
        if request.writes_to is not None:
            nodes.is_away(request.writes_to, address)
        if not _is_worth_another(request, result, failed, patience):
            raise failed
        pause_s = max(retry_after_s, min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2 ** min(attempt, 10)))
        if now_s() + pause_s >= deadline_s:
            break
        yield Pause(pause_s * (0.5 + chance() / 2))
        redirects = 0
        address, path = candidates[attempt % len(candidates)], request.path
    raise failed


def _attempt_s(request: Request, patience: Patience, left_s: float) -> float:
    """A publish has all the time there is: a second attempt may write it twice."""
    if request.writes_to is not None and not patience.may_duplicate:
        return left_s
    return min(left_s, patience.attempt_s + request.wait_s)


def _elsewhere(answer: Answer) -> tuple[Address, str]:
    location = answer.headers.get("location", "")
    try:
        address = parse_address(location)
    except ValueError:
        raise RequestFailed(answer.status, f"The answer redirects to {location[:200]!r}, which is no node.") from None
    parts = urlsplit(location)
    return address, f"{parts.path}?{parts.query}" if parts.query else parts.path


def _judge(request: Request, address: Address, result: Result) -> tuple[RequestFailed, float]:
    """What it means for the caller, and how long the node wants to be left alone."""
    if isinstance(result, Answer):
        if result.status == 307:
            return RequestFailed(307, "the nodes send one another this request: they do not agree on a leader yet"), 0.0
        seconds = result.headers.get("retry-after", "")
        wanted_s = min(float(seconds), PAUSE_SECONDS_MAX) if seconds.isdecimal() else 0.0
        # After 503 another node may well answer at once.
        return failure(request, result), wanted_s if result.status == 429 else 0.0
    assert isinstance(result, Unreachable), "a Send has an outcome"
    may_be_written = request.writes_to is not None and result.was_sent
    return RequestFailed(NO_ANSWER, f"{address} {result.reason}", may_be_written=may_be_written), 0.0


def _is_worth_another(request: Request, result: Result, failed: RequestFailed, patience: Patience) -> bool:
    if request.writes_to is None:
        return not isinstance(result, Answer) or result.status == 307 or result.status in _WORTH_ANOTHER_READ
    if failed.may_be_written:
        return patience.may_duplicate
    return not isinstance(result, Answer) or result.status == 307 or result.status in _WORTH_ANOTHER
