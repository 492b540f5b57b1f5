"""Two brokers live through the same story, and whatever the one tells its clients, the other must tell them too.

A story has actors, each with a connection of its own. A step sends the same request of one actor to both brokers; what
they answer is compared, and so is whether they answer at all: some requests wait for what other actors do. Ids that a
broker makes up (members, topics) are given names when they are first seen, and requests use these names.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Collection
from typing import Any

from tests.conformance.differential.answers import MASKED
from tests.servers.wire import Connection, ConnectionLost

from tidelog.model.errors import ErrorCode
from tidelog.protocol.headers import decode_response_header
from tidelog.protocol.index import is_response_header_flexible, response_class
from tidelog.protocol.message import Message, Structure

PARKED = "waits"
"""For others of its group, on both sides."""
CLOSED = "closed"
QUIET_S = 0.15
"""So long nobody has heard anything: whoever is not answered now waits."""
PATIENCE_S = 10.0
"""For the slower of the two."""
RETRY_S = 0.02

MADE_UP = frozenset({"member_id", "leader"})
VOLATILE = MASKED | {"member_metadata"}
SOON_OVER = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
"""One broker may still be busy with what the other has done already: then the request is sent again."""

LEADS = frozenset({"leader", "members"})


class Parted(Exception):
    """Both are right and have taken different ways: the story is over."""


Build = Callable[["Side"], Message]


class Side:
    """One of the brokers, as its clients see it."""

    def __init__(self, kind: str, port: int, topic_ids: dict[str, bytes]) -> None:
        self.kind = kind
        self.topic_ids = topic_ids
        self._topic_names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._port = port
        self._connections: dict[str, Connection] = {}
        self._names: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self.waiting: dict[str, tuple[int, int]] = {}
        """Actors whose request is not answered: its API and version."""

    def real(self, name: str) -> str:
        """What the broker calls whoever has this name in the story; a name that nobody has stands for itself."""
        return self._real.get(name, name)

    def send(self, actor: str, request: Message, version: int) -> None:
        connection = self._connections.get(actor)
        if connection is None:
            connection = self._connections[actor] = Connection(self._port, client_id=actor)
        assert request.API_KEY is not None
        connection.send_frame(connection.frame(request.API_KEY, version, request.encode(version)))
        self.waiting[actor] = (request.API_KEY, version)

    def has_heard(self, actor: str, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self._connections[actor].socket, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def receive(self, actor: str) -> Any:
        api_key, version = self.waiting.pop(actor)
        try:
            frame = self._connections[actor].receive_frame()
        except ConnectionLost:
            self._connections.pop(actor).close()
            return CLOSED
        position = decode_response_header(frame, is_response_header_flexible(api_key, version))[1]
        return self._told(response_class(api_key).decode(frame, position, version)[0], "")

    def _told(self, value: Any, field: str) -> Any:
        if field in VOLATILE:
            return "..."
        if field == "topic_id":
            return self._topic_names.get(value, value)
        if field in MADE_UP and value:
            return self._name_of(value)
        if isinstance(value, Structure):
            return {name: self._told(getattr(value, name), name) for name in value.__slots__}
        if isinstance(value, list):
            # No order of an answer means anything to a client here.
            return sorted((self._told(element, "") for element in value), key=repr)
        return bytes(value) if isinstance(value, memoryview) else value

    def _name_of(self, value: str) -> str:
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = f"member {len(self._names)}"
            self._real[name] = value
        return name

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


class Story:
    def __init__(self, kafka: Side, tidelog: Side) -> None:
        self._sides = (kafka, tidelog)
        self.parked: set[str] = set()
        self.told: list[str] = []
        """What has happened, a line each, for whoever has to find out what went wrong."""
        self.on_released: Callable[[str, Any], None] = lambda actor, answer: None

    def step(
        self,
        actor: str,
        build: Build,
        version: int,
        *,
        may_park: bool = False,
        view: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """The answer, as both gave it, or PARKED; `view` is what of it is compared."""
        requests = [build(side) for side in self._sides]
        self.told.append(f"{actor}: {requests[0]!r} v{version}"[:600])
        for side, request in zip(self._sides, requests, strict=True):
            side.send(actor, request, version)
        kafka, tidelog = self._sides
        if not may_park:
            pairs = zip(self._sides, requests, strict=True)
            answers = [self._answer(side, actor, request, version) for side, request in pairs]
            return self._compared(actor, *map(view, answers))
        if not self._wait(actor):
            self.parked.add(actor)
            self.told.append("    ... waits")
            return PARKED
        return self._compared(actor, kafka.receive(actor), tidelog.receive(actor))

    def _answer(self, side: Side, actor: str, request: Message, version: int) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert side.has_heard(actor, PATIENCE_S), self._so_far(f"{side.kind} does not answer {actor}")
            answer = side.receive(actor)
            if not (_codes(answer) & SOON_OVER) or time.monotonic() > deadline:
                return answer
            time.sleep(RETRY_S)
            side.send(actor, request, version)

    def _wait(self, actor: str) -> bool:
        """Whether the actor is answered, by both; False if by none."""
        heard = [side.has_heard(actor, QUIET_S) for side in self._sides]
        if any(heard):
            for side, has_heard in zip(self._sides, heard, strict=True):
                if not has_heard:
                    assert side.has_heard(actor, PATIENCE_S), self._so_far(f"only {side.kind} lets {actor} wait")
        return any(heard)

    def settle(self) -> None:
        """Hears those out who waited."""
        for actor in sorted(self.parked):
            if self._wait(actor):
                self.parked.discard(actor)
                kafka, tidelog = self._sides
                answer = self._compared(actor, kafka.receive(actor), tidelog.receive(actor))
                self.on_released(actor, answer)

    def _compared(self, actor: str, kafka: Any, tidelog: Any) -> Any:
        self.told.append(f"    {actor} is told {kafka!r}"[:900])
        if kafka != tidelog:
            if ErrorCode.UNKNOWN_SERVER_ERROR in _codes(kafka):
                raise Parted("an accident of Kafka's")
            if isinstance(kafka, dict) and "leader" in kafka and _without(LEADS, kafka) == _without(LEADS, tidelog):
                raise Parted("who leads after a leader has left is a matter of hash codes in Kafka")
            raise AssertionError(self._so_far(f"and Tidelog tells {actor} {_difference(kafka, tidelog)}"))
        return kafka

    def _so_far(self, problem: str) -> str:
        return "\n".join([*self.told[-24:], problem])


def _without(names: Collection[str], answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: _without(names, value) for name, value in answer.items() if name not in names}
    return [_without(names, element) for element in answer] if isinstance(answer, list) else answer


def _codes(answer: Any) -> Collection[int]:
    """All error codes in it."""
    if isinstance(answer, dict):
        found = {value for name, value in answer.items() if name == "error_code" and isinstance(value, int)}
        return found.union(*(_codes(value) for value in answer.values()))
    if isinstance(answer, list):
        return set().union(*(_codes(element) for element in answer))
    return set()


def _difference(kafka: Any, tidelog: Any, path: str = "") -> str:
    if isinstance(kafka, dict) and isinstance(tidelog, dict) and kafka.keys() == tidelog.keys():
        different = [name for name in kafka if kafka[name] != tidelog[name]]
        return "; ".join(_difference(kafka[name], tidelog[name], f"{path}.{name}") for name in different)
    if isinstance(kafka, list) and isinstance(tidelog, list) and len(kafka) == len(tidelog):
        pairs = [pair for pair in zip(kafka, tidelog, strict=True) if pair[0] != pair[1]]
        return "; ".join(_difference(*pair, f"{path}[]") for pair in pairs)
    return f"{path or 'all'}: {kafka!r} by Kafka, {tidelog!r} by Tidelog"
