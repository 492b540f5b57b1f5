"""Requests as the HTTP door has them, and what its answers say."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client import calls
from tidelog.client.calls import Answer
from tidelog.client.errors import RequestFailed
from tidelog.client.events import Event, EventParser
from tidelog.client.exchange import Tokens, Unreachable
from tidelog.client.nodes import Nodes
from tidelog.client.results import Fetched, Record, StreamedRecord
from tidelog.client.streaming import StreamReader, StreamTarget


def test_names_are_quoted() -> None:
    assert calls.publish("a/b c", 3, b"", None, (), "all").path == "/topics/a%2Fb%20c/partitions/3?acks=all"


@pytest.mark.parametrize("key", [b"\n", b"a\r\nX-Evil: 1", b" a", b"a ", b"\x00", b"\x7f"])
def test_what_headers_cannot_carry_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="control characters or blanks"):
        calls.publish("t", 0, b"", key, (), "all")
    with pytest.raises(ValueError, match="the header h has control"):
        calls.publish("t", 0, b"", None, [("h", key)], "all")


@pytest.mark.parametrize("name", ["", "a b", "a:", "é", "a\n"])
def test_names_that_headers_cannot_have_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        calls.publish("t", 0, b"", None, [(name, b"1")], "all")


def test_other_mistakes() -> None:
    with pytest.raises(ValueError, match="acks is one of"):
        calls.publish("t", 0, b"", None, (), "2")
    with pytest.raises(ValueError, match="at least one record"):
        calls.publish_batch("t", 0, [], "all")


def test_records_come_back_as_bytes() -> None:
    body = {
        "fromOffset": 4,
        "toOffset": 6,
        "records": [
            {"offset": 4, "timestamp": 7, "key": "aw==", "value": "dg==", "headers": [["h", "MQ=="], ["n", None]]},
            {"offset": 5, "timestamp": 8, "key": None, "value": None, "headers": []},
        ],
    }
    assert calls.fetched(Answer(200, {}, json.dumps(body).encode())) == Fetched(
        (Record(4, 7, b"k", b"v", (("h", b"1"), ("n", None))), Record(5, 8, None, None, ())), 6
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"message": 1}', b"\xff"])
def test_errors_in_no_known_form(body: bytes) -> None:
    request = calls.fetch("t", 0, {"offset": 0})
    failed = calls.failure(request, Answer(418, {}, body))
    assert failed.status == 418
    assert "\n" not in str(failed)


def test_what_is_no_node() -> None:
    with pytest.raises(RequestFailed, match="is this the HTTP door"):
        calls.published("t", 0, Answer(200, {}, b"hello"))


EVENTS = (
    b": a sign of life\n\n"
    b'id: 0:4\ndata: {"a":1}\n\n'
    b"id: 0:5,1:7\r\ndata: two\r\ndata:lines\r\n\r\n"
    b"event: other\nretry: 5\n\n"
    b"data: same id\n\n"
    b"id: 9:9\n\n"
    b"id: 0:6\ndata: not compl"
)


@given(st.lists(st.integers(0, len(EVENTS)), max_size=8))
def test_events_however_they_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(EVENTS)]
    parser = EventParser()
    found = [event for a, b in itertools.pairwise(edges) for event in parser.feed(EVENTS[a:b])]
    assert found == [
        Event("0:4", '{"a":1}'),
        Event("0:5,1:7", "two\nlines"),
        Event("0:5,1:7", "same id"),
        Event("9:9", ""),
    ]


def line(offset: int) -> bytes:
    record = {"topic": "t", "partition": 0, "offset": offset, "timestamp": 1, "key": None, "value": "dg=="}
    return f"id: 0:{offset}\ndata: {json.dumps({**record, 'headers': []})}\n\n".encode()


def test_a_stream_goes_on_behind_its_last_record() -> None:
    nodes = Nodes("s", ["a:1", "b:2"])
    reader = StreamReader(StreamTarget("t", None, 3, None, None, "read_committed"), None, 10)
    _, request = reader.next_request(nodes, Tokens("T"))
    assert request.path == "/topics/t/stream?encoding=base64&offset=3&isolation=read_committed"
    assert request.headers == {"Accept": "text/event-stream", "X-Tidelog-Session": "T"}
    assert reader.opened(Answer(200, {}, b""))
    [record] = reader.feed(line(3) + line(4)[:-2])
    assert record == StreamedRecord("t", 0, 3, 1, None, b"v", (), "0:3")
    reader.pause_s(None, 0)
    _, request = reader.next_request(nodes, Tokens(None))
    # Of a partition that was not read yet, the offset holds still.
    assert request.path == "/topics/t/stream?encoding=base64&offset=3&isolation=read_committed"
    assert request.headers["Last-Event-ID"] == "0:3"


def test_a_stream_is_opened_elsewhere_and_given_up_in_time() -> None:
    nodes = Nodes("s", ["a:1", "b:2"])
    reader = StreamReader(StreamTarget("t", 0, None, None, "g", "read_uncommitted"), None, 10)
    first, _ = reader.next_request(nodes, Tokens(None))
    lost = Unreachable("did not answer", was_sent=True)
    assert reader.pause_s(lost, 0) <= 1
    second, _ = reader.next_request(nodes, Tokens(None))
    assert first != second
    assert not reader.opened(Answer(503, {}, b""))
    assert not reader.opened(Answer(307, {"location": "http://c:3/x?y=1"}, b""))
    address, request = reader.next_request(nodes, Tokens(None))
    assert (str(address), request.path) == ("c:3", "/x?y=1")
    with pytest.raises(RequestFailed, match="did not answer"):
        reader.pause_s(lost, 11)
    with pytest.raises(RequestFailed, match="404"):
        reader.opened(Answer(404, {}, b""))


def test_a_stream_that_shows_nothing_yet_goes_on_where_it_began() -> None:
    nodes = Nodes("s", ["a:1"])
    reader = StreamReader(StreamTarget("t", None, "latest", None, None, "read_uncommitted"), None, 10)
    reader.next_request(nodes, Tokens(None))
    assert list(reader.feed(b"id: 0:41,1:7\n\n: heartbeat\n\nid: 0:42")) == []
    _, request = reader.next_request(nodes, Tokens(None))
    assert request.headers["Last-Event-ID"] == "0:41,1:7"


def ended(status: int) -> bytes:
    error = {"code": status, "message": "so it is", "kafkaError": "SOME_ERROR"}
    return f"event: error\ndata: {json.dumps({'error': error})}\n\n".encode()


def test_a_stream_that_a_node_ends() -> None:
    reader = StreamReader(StreamTarget("t", None, 0, None, None, "read_uncommitted"), None, 10)
    reader.next_request(Nodes("s", ["a:1"]), Tokens(None))
    assert [record.offset for record in reader.feed(line(3) + ended(503) + line(4))] == [3]
    with pytest.raises(RequestFailed, match="404: so it is") as failed:
        list(reader.feed(ended(404)))
    assert failed.value.kafka_error == "SOME_ERROR"
