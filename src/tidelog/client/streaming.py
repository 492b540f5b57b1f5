"""A stream of records over several connections: where it is opened, where it goes on, when it is given up. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tidelog.client import calls
from tidelog.client.bounds import PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN
from tidelog.client.calls import Answer, Request
from tidelog.client.errors import NO_ANSWER, RequestFailed
from tidelog.client.events import EventParser
from tidelog.client.exchange import TOKEN_HEADER, Tokens, Unreachable
from tidelog.client.nodes import Address, Nodes, parse_address
from tidelog.client.results import StreamedRecord

_WORTH_ANOTHER: Final = frozenset({429, 500, 502, 503, 504})


class StreamTarget(NamedTuple):
    topic: str
    partition: int | None
    offset: int | str | None
    timestamp: int | None
    group: str | None
    isolation: str


class StreamReader:
    def __init__(self, target: StreamTarget, position: str | None, timeout_s: float) -> None:
        """`timeout_s`: how long it is tried to open the stream again."""
        self._target = target
        self._position = position
        self._timeout_s = timeout_s
        self._parser = EventParser()
        self._failures = 0
        self._failing_since_s: float | None = None
        self._redirected_to: tuple[Address, str] | None = None

    def next_request(self, nodes: Nodes, tokens: Tokens) -> tuple[Address, Request]:
        self._parser = EventParser()
        # Where it begins counts again for the partitions of which nothing was read.
        topic, *parameters = self._target
        request = calls.stream(topic, dict(zip(self._target._fields[1:], parameters, strict=True)), self._position)
        if token := str(tokens):
            request = request._replace(headers={**request.headers, TOKEN_HEADER: token})
        if self._redirected_to is not None:
            (address, path), self._redirected_to = self._redirected_to, None
            return address, request._replace(path=path)
        candidates = nodes.candidates(None)
        return candidates[self._failures % len(candidates)], request

    def opened(self, answer: Answer) -> bool:
        """Whether records follow. Raises RequestFailed for what no other attempt can change."""
        if answer.status == 200:
            return True
        if answer.status == 307:
            location = answer.headers.get("location", "")
            parts = urlsplit(location)
            self._redirected_to = parse_address(location), f"{parts.path}?{parts.query}" if parts.query else parts.path
            return False
        failed = calls.failure(Request("GET", f"/topics/{self._target.topic}/stream"), answer)
        if answer.status not in _WORTH_ANOTHER:
            raise failed
        return False

    def feed(self, part: bytes) -> Iterator[StreamedRecord]:
        """Raises RequestFailed where the node ends the stream, and another attempt cannot change it."""
        for event in self._parser.feed(part):
            try:
                record = calls.streamed(event.data, event.id) if event.data else None
            except RequestFailed as ended:
                if ended.status not in _WORTH_ANOTHER:
                    raise
                return
            self._position = event.id or self._position
            self._failures = 0
            self._failing_since_s = None
            if record is not None:
                yield record

    def pause_s(self, lost: Unreachable | None, now_s: float) -> float:
        """Before the next attempt. Raises RequestFailed when there was no record for too long."""
        self._failures += 1
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        if now_s - self._failing_since_s > self._timeout_s:
            raise RequestFailed(NO_ANSWER, "the stream cannot be opened" if lost is None else f"a node {lost.reason}")
        return float(min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN * 2 ** min(self._failures, 10)))
