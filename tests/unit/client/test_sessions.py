"""Both sessions against a server that does what a test says: connections, time-outs, redirects, streams that break."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any

import pytest

from tidelog.client import AsyncSession, Patience, RequestFailed, Session
from tidelog.client.bounds import PARALLEL_MAX

PATIENCE = Patience(timeout_s=20, attempt_s=0.3)


class Door:
    """`answer` is called for each request, in a thread of its own."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        door = self
        self.seen: list[tuple[int, str, dict[str, str], bytes]] = []
        """Port of the client, path, headers and body."""

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                headers = {name.lower(): text for name, text in self.headers.items()}
                body = self.rfile.read(int(headers.get("content-length", "0")))
                door.seen.append((self.client_address[1], self.path, headers, body))
                answer(self)

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Door:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def say(handler: BaseHTTPRequestHandler, value: object, status: int = 200, **headers: str) -> None:
    body = json.dumps(value).encode()
    handler.send_response(status)
    for name, text in headers.items():
        handler.send_header(name.replace("_", "-"), text)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def chunked(handler: BaseHTTPRequestHandler, *parts: bytes, is_complete: bool = True) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for part in parts:
        handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        handler.wfile.flush()
    if is_complete:
        handler.wfile.write(b"0\r\n\r\n")
    else:
        handler.close_connection = True


class Blocking:
    """An AsyncSession as the other one looks."""

    def __init__(self, nodes: list[str], **settings: Any) -> None:
        self.runner = asyncio.Runner()

        async def make() -> AsyncSession:
            return AsyncSession(nodes, **settings)

        self._session = self.runner.run(make())

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if not asyncio.iscoroutinefunction(found):
            return found
        return lambda *arguments, **settings: self.runner.run(found(*arguments, **settings))

    def stream(self, *arguments: Any, **settings: Any) -> Iterator[Any]:
        records = self._session.stream(*arguments, **settings)
        try:
            while True:
                yield self.runner.run(anext(records))
        finally:
            self.runner.run(records.aclose())

    def close(self) -> None:
        self.runner.run(self._session.close())
        self.runner.close()


@contextmanager
def opened(kind: str, *nodes: str, **settings: Any) -> Iterator[Any]:
    session = {"sync": Session, "async": Blocking}[kind](list(nodes), **{"patience": PATIENCE, **settings})
    try:
        yield session
    finally:
        session.close()


both = pytest.mark.parametrize("kind", ["sync", "async"])


@both
def test_a_connection_is_used_again(kind: str) -> None:
    with Door(lambda handler: say(handler, {"offset": 7})) as door, opened(kind, door.address) as session:
        for _ in range(5):
            assert session.publish("t", 1, b"x", key=b"k", headers=[("h", b"v")]) == ("t", 1, 7)
    assert len({port for port, *_ in door.seen}) == 1
    _, path, headers, body = door.seen[0]
    assert (path, body, headers["x-key"], headers["x-header-h"]) == ("/topics/t/partitions/1?acks=all", b"x", "k", "v")
    assert headers["host"] == door.address


@both
def test_a_connection_that_the_node_has_closed_is_not_used_again(kind: str) -> None:
    """A publish on it could not be repeated: nobody would know whether it was written."""
    closed = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        say(handler, {"offset": 7})
        # Without saying so.
        handler.close_connection = True
        closed.set()

    with Door(answer) as door, opened(kind, door.address) as session:
        for _ in range(3):
            assert session.publish("t", 1, b"x").offset == 7
            closed.wait(5)
            closed.clear()
            # The end of the connection has to come through the loop-back device, and through the loop.
            if kind == "async":
                session.runner.run(asyncio.sleep(0.05))
            else:
                threading.Event().wait(0.05)
    assert len({port for port, *_ in door.seen}) == 3


@both
def test_answers_in_chunks(kind: str) -> None:
    body = json.dumps({"fromOffset": 0, "toOffset": 0, "records": [], "more": "x" * 300_000}).encode()
    parts = [body[start : start + 70_000] for start in range(0, len(body), 70_000)]
    with Door(lambda handler: chunked(handler, *parts)) as door, opened(kind, door.address) as session:
        for _ in range(2):
            assert session.fetch("t", 0, 0) == ((), 0)
    assert len({port for port, *_ in door.seen}) == 1


@both
def test_errors_say_what_is_wrong(kind: str) -> None:
    error = {"code": 404, "message": "There is no such topic.", "kafkaError": "UNKNOWN_TOPIC_OR_PARTITION"}
    with (
        Door(lambda handler: say(handler, error, 404)) as door,
        opened(kind, door.address) as session,
        pytest.raises(RequestFailed, match=r"^404: There is no such topic.$") as failed,
    ):
        session.fetch("t", 0, 0)
    assert failed.value.kafka_error == "UNKNOWN_TOPIC_OR_PARTITION"


@both
def test_a_read_goes_to_another_node_when_its_own_hangs(kind: str) -> None:
    hanging = threading.Event()
    with (
        Door(lambda _: hanging.wait(60) and None) as slow,
        Door(lambda handler: say(handler, {"toOffset": 3, "records": []})) as quick,
    ):
        session_id = next(str(number) for number in range(100) if is_first(str(number), slow, quick))
        # A busy machine may need several attempts at the quick one.
        patience = Patience(timeout_s=30, attempt_s=0.2)
        with opened(kind, slow.address, quick.address, session_id=session_id, patience=patience) as session:
            assert session.fetch("t", 0, 0).next_offset == 3
        assert slow.seen
        with (
            opened(kind, slow.address, session_id=session_id, patience=Patience(timeout_s=0.5)) as session,
            pytest.raises(RequestFailed, match="did not answer in time") as failed,
        ):
            session.publish("t", 0, b"x")
        assert failed.value.may_be_written
        hanging.set()


def is_first(session_id: str, first: Door, second: Door) -> bool:
    from tidelog.client.nodes import Nodes

    return str(Nodes(session_id, [first.address, second.address]).candidates(None)[0]) == first.address


@both
def test_a_publish_that_finds_nobody_goes_elsewhere(kind: str) -> None:
    with (
        Door(lambda handler: say(handler, {"offsets": [3, 4]})) as door,
        opened(kind, "127.0.0.1:1", door.address) as session,
    ):
        for _ in range(3):
            assert session.publish_batch("t", 0, [b"a", b"b"]).offsets == (3, 4)


@both
def test_a_redirect_takes_the_body_along(kind: str) -> None:
    with Door(lambda handler: say(handler, {"offset": 9})) as leader:

        def send_on(handler: BaseHTTPRequestHandler) -> None:
            say(handler, {}, 307, Location=f"http://{leader.address}{handler.path}")

        with Door(send_on) as follower, opened(kind, follower.address) as session:
            assert session.publish("t", 0, b"body").offset == 9
            assert session.publish("t", 0, b"body").offset == 9
    assert [body for *_, body in leader.seen] == [b"body"] * 2
    assert len(follower.seen) == 1


@both
def test_the_token_goes_along(kind: str) -> None:
    with (
        Door(lambda handler: say(handler, {"offset": 9}, X_Tidelog_Session="T1")) as door,
        opened(kind, door.address, token="T0") as session,
    ):
        session.publish("t", 0, b"x")
        assert session.token == "T1"
        session.publish("t", 0, b"x")
    assert [headers["x-tidelog-session"] for _, _, headers, _ in door.seen] == ["T0", "T1"]


def test_threads_keep_each_others_tokens() -> None:
    """A server that gives every request a token of its own, for itself alone."""
    numbers = iter(range(1000))
    lost = []
    covers: dict[str, set[str]] = {}
    given = set()
    lock = threading.Lock()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        with lock:
            token = f"T{next(numbers)}"
            sent = handler.headers.get("X-Tidelog-Session", "")
            if sent.count(",") >= PARALLEL_MAX:
                lost.append(sent)
            covers[token] = {token}.union(*(covers[each] for each in sent.split(",") if each))
            given.add(token)
        say(handler, {"offset": 1}, X_Tidelog_Session=token)

    with Door(answer) as door, opened("sync", door.address) as session:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: session.publish("t", 0, b"x"), range(200)))
        kept = set().union(*(covers[each] for each in session.token.split(",")))
    assert not lost
    assert kept == given


def record_line(offset: int) -> bytes:
    record = {"topic": "t", "partition": 0, "offset": offset, "timestamp": 1, "key": None, "value": "dg=="}
    return f"id: 0:{offset}\ndata: {json.dumps({**record, 'headers': []})}\n\n".encode()


@both
def test_a_stream_that_breaks_goes_on(kind: str) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        last = handler.headers.get("Last-Event-ID")
        start = 0 if last is None else int(last.partition(":")[2]) + 1
        chunked(handler, b": hello\n\n", record_line(start), record_line(start + 1)[:30], is_complete=start % 2 == 0)

    with Door(answer) as door, opened(kind, door.address) as session:
        records = session.stream("t", offset=0)
        found = list(islice(records, 3))
        records.close()
    assert [(each.offset, each.value, each.position) for each in found] == [(n, b"v", f"0:{n}") for n in range(3)]
    assert [headers.get("last-event-id") for _, _, headers, _ in door.seen[:3]] == [None, "0:0", "0:1"]


@both
def test_what_is_not_http_is_an_error(kind: str) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        handler.close_connection = True

    with (
        Door(answer) as door,
        opened(kind, door.address, patience=Patience(timeout_s=0.2)) as session,
        pytest.raises(RequestFailed, match="did not answer") as failed,
    ):
        session.fetch("t", 0, 0)
    assert "\n" not in str(failed.value)


def test_it_is_imported_without_the_rest() -> None:
    code = (
        "import sys, tidelog.client as c; c.Session, c.AsyncSession;"
        "print([m for m in sys.modules if m.startswith('tidelog.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.replace("'", '"')))
    assert {each for each in loaded if not each.startswith("tidelog.client")} <= {"tidelog.compiled", "tidelog.version"}
    for name in ("tidelog.client.session", "tidelog.client.async_session"):
        assert name in loaded
