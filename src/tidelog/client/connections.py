"""The connections of a `Session`: kept alive, a few per node, used by one request at a time."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse
from types import TracebackType
from typing import NamedTuple, Self

from tidelog.client.bounds import ANSWER_BYTES_MAX, CONNECT_SECONDS_MAX, IDLE_SECONDS_MAX, PARALLEL_MAX, PART_BYTES
from tidelog.client.calls import Answer, Request
from tidelog.client.exchange import Unreachable
from tidelog.client.nodes import Address


class _Idle(NamedTuple):
    connection: HTTPConnection
    since_s: float


class Connections:
    """May be used by several threads."""

    def __init__(self) -> None:
        self._idle: dict[Address, list[_Idle]] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for kept in idle.values():
            for each in kept:
                each.connection.close()

    def send(self, address: Address, request: Request, timeout_s: float) -> Answer | Unreachable:
        deadline_s = time.monotonic() + timeout_s
        opened = self._take(address) or _connect(address, timeout_s)
        if isinstance(opened, Unreachable):
            return opened
        try:
            response = _ask(opened, request, deadline_s - time.monotonic())
            body = response.read(ANSWER_BYTES_MAX + 1)
            if len(body) > ANSWER_BYTES_MAX:
                raise HTTPException(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        except (OSError, HTTPException) as error:
            opened.close()
            return _lost(error)
        except BaseException:
            opened.close()
            raise
        if response.will_close:
            opened.close()
        else:
            self._keep(address, opened)
        return Answer(response.status, _headers(response), body)

    def stream(self, address: Address, request: Request, silence_s: float) -> OpenedStream | Unreachable:
        """On a connection of its own, which is taken for lost when nothing comes for `silence_s`."""
        opened = _connect(address, CONNECT_SECONDS_MAX)
        if isinstance(opened, Unreachable):
            return opened
        try:
            response = _ask(opened, request, silence_s)
            body = b"" if response.status == 200 else response.read(PART_BYTES)
        except (OSError, HTTPException) as error:
            opened.close()
            return _lost(error)
        return OpenedStream(opened, response, Answer(response.status, _headers(response), body))

    def _take(self, address: Address) -> HTTPConnection | None:
        oldest_s = time.monotonic() - IDLE_SECONDS_MAX
        while True:
            with self._lock:
                kept = self._idle.get(address)
                if not kept:
                    return None
                idle = kept.pop()
            if idle.since_s > oldest_s and _is_quiet(idle.connection):
                return idle.connection
            idle.connection.close()

    def _keep(self, address: Address, connection: HTTPConnection) -> None:
        with self._lock:
            kept = self._idle.setdefault(address, [])
            if len(kept) < PARALLEL_MAX:
                kept.append(_Idle(connection, time.monotonic()))
                return
        connection.close()


class OpenedStream:
    """The parts of an answer as they come. The end of the `with` closes its connection."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse, answer: Answer) -> None:
        self._connection = connection
        self._response = response
        self.answer = answer
        """With its body unless the status is 200."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.close()
        self._connection.close()

    def __iter__(self) -> Iterator[bytes]:
        try:
            while part := self._response.read1(PART_BYTES):
                yield part
        except (OSError, HTTPException):
            # The stream is resumed on another connection.
            return


def _connect(address: Address, timeout_s: float) -> HTTPConnection | Unreachable:
    connection = HTTPConnection(address.host, address.port, timeout=max(0.001, min(CONNECT_SECONDS_MAX, timeout_s)))
    try:
        connection.connect()
    except OSError as error:
        connection.close()
        return Unreachable(f"cannot be reached: {error}", was_sent=False)
    return connection


def _ask(connection: HTTPConnection, request: Request, timeout_s: float) -> HTTPResponse:
    connection.sock.settimeout(max(0.001, timeout_s))
    connection.request(request.method, request.path, request.body or None, dict(request.headers))
    return connection.getresponse()


def _lost(error: Exception) -> Unreachable:
    reason = "did not answer in time" if isinstance(error, TimeoutError) else f"did not answer: {error!r}"
    return Unreachable(reason, was_sent=True)


def _is_quiet(connection: HTTPConnection) -> bool:
    """Whether the node has not closed the connection; on one that is idle nothing else can have come."""
    poll = select.poll()
    try:
        poll.register(connection.sock, select.POLLIN)
        return not poll.poll(0)
    except (OSError, ValueError):
        return False


def _headers(response: HTTPResponse) -> dict[str, str]:
    return {name.lower(): content for name, content in response.getheaders()}
