"""Streams of records out and in, beside Kafka's clients on the same node."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.conformance.http.conftest import HttpNode
from tests.servers.http import TIMEOUT_S, ask, get
from tests.waiting import wait_until

from tidelog.model import limits

_numbers = count()
NDJSON = "application/x-ndjson"


@pytest.fixture
def topic() -> str:
    return f"stream-{next(_numbers)}-{time.monotonic_ns()}"


def create(node: HttpNode, topic: str, partitions: int, configs: dict[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1, config=configs or {})])[topic].result(20)


def fill(node: HttpNode, topic: str, values: list[bytes], *, partitions: int = 1, **fields: Any) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5, "log_level": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions, **fields)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(20) == 0


class Stream:
    """One stream as a client reads it."""

    def __init__(self, node: HttpNode, path: str, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=TIMEOUT_S)
        self._connection.request("GET", path, headers={name.replace("_", "-"): each for name, each in headers.items()})
        self.response = self._connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """The connection is reset, as that of a machine that has lost its power is in the end."""
        connection = self._connection.sock
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.response.close()
        self._connection.close()

    def line(self) -> bytes:
        line = self.response.readline()
        assert line, "the stream has ended"
        return line.rstrip(b"\n")

    def records(self, number: int) -> list[dict[str, Any]]:
        """Of lines of JSON."""
        found: list[dict[str, Any]] = []
        while len(found) < number:
            line = self.line()
            if line:
                found.append(json.loads(line))
        return found

    def event(self) -> tuple[str, dict[str, Any] | None]:
        """The id of the next event, and its data where it has any. Heartbeats are passed over."""
        fields: dict[str, str] = {}
        while True:
            line = self.line().decode()
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "id" in fields:
                return fields["id"], json.loads(fields["data"]) if "data" in fields else None


# -- out ---------------------------------------------------------------------------------------------------------------


def test_events_say_where_their_reader_is(http_node: HttpNode, topic: str) -> None:
    create(http_node, topic, 2)
    fill(http_node, topic, [b"a", b"b", b"c"], partitions=2, key=b"k", headers=[("trace", b"1"), ("none", None)])
    with Stream(http_node, f"/topics/{topic}/stream?offset=0", Accept="text/event-stream") as stream:
        assert stream.response.headers["Content-Type"] == "text/event-stream"
        found = dict([stream.event() for _ in range(3)])
    assert len(found) == 3
    [last] = [each for each in found if each in ("0:1,1:0", "0:1,1:0")]
    assert all(each in ("0:0", "1:0", "0:1", "0:0,1:0", "0:1,1:0") for each in found), found
    record = found[last]
    assert record is not None
    assert isinstance(record.pop("timestamp"), int)
    partition = record["partition"]
    assert record == {
        "topic": topic,
        "partition": partition,
        "offset": 1 - partition,
        "key": "aw==",
        "value": base64.b64encode(b"b" if partition else b"c").decode(),
        "headers": [["trace", "MQ=="], ["none", None]],
    }


@pytest.mark.parametrize(
    ("value", "text", "as_json"),
    [
        (b'{"a": [1, 2.50]}', '{"a": [1, 2.50]}', {"a": [1, 2.5]}),
        (b'{\n "a": 1\n}', '{\n "a": 1\n}', {"a": 1}),
        (b"plain \xe2\x82\xac", "plain €", "plain €"),
        (b"NaN", "NaN", "NaN"),
        (b"7", "7", 7),
        (b'"quoted"', '"quoted"', "quoted"),
        (b"\xff\x00", {"base64": "/wA="}, {"base64": "/wA="}),
        (b"", "", ""),
        (None, None, None),
    ],
)
def test_encodings(http_node: HttpNode, topic: str, value: bytes | None, text: object, as_json: object) -> None:
    fill(http_node, topic, [value], key=b"12")  # type: ignore[list-item]
    for encoding, key, wanted in (
        ("base64", "MTI=", None if value is None else base64.b64encode(value).decode()),
        ("text", "12", text),
        ("json", "12", as_json),
    ):
        with Stream(http_node, f"/topics/{topic}/stream?offset=earliest&encoding={encoding}", Accept=NDJSON) as stream:
            assert stream.response.headers["Content-Type"] == NDJSON
            [record] = stream.records(1)
        assert (record["key"], record["value"]) == (key, wanted)


def test_a_stream_goes_on_with_what_comes(http_node: HttpNode, topic: str) -> None:
    fill(http_node, topic, [b"old"])
    with Stream(http_node, f"/topics/{topic}/stream?format=ndjson&encoding=text") as stream:
        fill(http_node, topic, [b"new"])
        assert [each["value"] for each in stream.records(1)] == ["new"]
        fill(http_node, topic, [b"%d" % number for number in range(3000)])
        assert [each["value"] for each in stream.records(3000)] == [str(number) for number in range(3000)]


def test_a_stream_begins_at_a_time(http_node: HttpNode, topic: str) -> None:
    for at in (1_000, 2_000, 3_000):
        fill(http_node, topic, [b"%d" % at], timestamp=at)
    with Stream(http_node, f"/topics/{topic}/stream?timestamp=1500&format=ndjson&encoding=text") as stream:
        assert [each["value"] for each in stream.records(2)] == ["2000", "3000"]


def test_a_stream_follows_partitions_that_are_added(http_node: HttpNode, topic: str) -> None:
    create(http_node, topic, 1)
    with Stream(http_node, f"/topics/{topic}/stream?heartbeat=200&format=ndjson&encoding=text") as stream:
        admin = AdminClient({"bootstrap.servers": http_node.bootstrap, "log_level": 0})
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(20)
        fill(http_node, topic, [b"first", b"second"], partitions=2)
        assert {each["value"] for each in stream.records(2)} == {"first", "second"}


def test_signs_of_life(http_node: HttpNode, topic: str) -> None:
    fill(http_node, topic, [b"x"])
    with Stream(http_node, f"/topics/{topic}/stream?heartbeat=100") as stream:
        assert [stream.line() for _ in range(4)] == [b"id: 0:0", b"", b": heartbeat", b""]
    with Stream(http_node, f"/topics/{topic}/stream?heartbeat=100", Accept=NDJSON) as stream:
        assert [stream.line() for _ in range(2)] == [b"", b""]


def test_a_reader_that_comes_back_misses_nothing(http_node: HttpNode, topic: str) -> None:
    create(http_node, topic, 3)
    with Stream(http_node, f"/topics/{topic}/stream?encoding=text") as stream:
        last_id, nothing = stream.event()
        assert (last_id, nothing) == ("0:-1,1:-1,2:-1", None)
    found: list[str] = []
    values = [f"{number}" for number in range(3000)]
    for part in range(3):
        fill(http_node, topic, [each.encode() for each in values[part * 1000 : part * 1000 + 1000]], partitions=3)
        with Stream(http_node, f"/topics/{topic}/stream?encoding=text", Last_Event_ID=last_id) as stream:
            wanted = 3000 - len(found) if part == 2 else 700
            while wanted:
                last_id, record = stream.event()
                if record is not None:
                    found.append(record["value"])
                    wanted -= 1
    assert sorted(found, key=int) == values


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("offset=1&timestamp=2", 400, "cannot go together"),
        ("offset=1&group=g", 400, "cannot go together"),
        ("partition=0&group=g", 400, "the group assigns partitions"),
        ("group=", 400, "group must not be empty"),
        ("offset=-3", 400, "offset must be a number, earliest or latest"),
        ("offset=99999999999999999999", 400, "offset must be a number"),
        ("offset=5", 416, "from 0 to 1; a stream cannot begin at 5"),
        ("partition=7", 404, "There is no partition 7"),
        ("partition=x", 400, "partition must be an integer"),
        ("encoding=xml", 400, "encoding must be one of"),
        ("heartbeat=1", 400, "heartbeat must be between"),
        ("reset=never&group=g", 400, "reset must be one of"),
        ("group=fresh&reset=none", 416, "committed no offset"),
    ],
)
def test_what_a_stream_refuses(http_node: HttpNode, query: str, status: int, message: str) -> None:
    if get(http_node.port, "/cluster/topics/stream-refusals/partitions/0").status == 404:
        fill(http_node, "stream-refusals", [b"x"])
    answer = get(http_node.port, f"/topics/stream-refusals/stream?{query}")
    assert (answer.status, answer.json()["code"]) == (status, status)
    assert message in answer.json()["message"]


def test_reading_creates_no_topic(http_node: HttpNode, topic: str) -> None:
    for _ in range(2):
        answer = get(http_node.port, f"/topics/{topic}/stream")
        assert (answer.status, answer.json()["kafkaError"]) == (404, "UNKNOWN_TOPIC_OR_PARTITION")
    assert get(http_node.port, f"/topics/{topic}/stream", {"Last-Event-ID": "0:1;2"}).status == 400


def test_a_group_is_shared_with_a_kafka_consumer(http_node: HttpNode, topic: str) -> None:
    create(http_node, topic, 4)
    consumer = Consumer(
        {
            "bootstrap.servers": http_node.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 300,
            "session.timeout.ms": 6000,
            "log_level": 0,
        }
    )
    theirs: list[bytes] = []
    consumer.subscribe([topic])

    def consumer_has(partitions: int) -> bool:
        message = consumer.poll(0.05)
        if message is not None and not message.error():
            theirs.append(message.value())
        return len(consumer.assignment()) == partitions

    path = f"/topics/{topic}/stream?group={topic}&reset=earliest&heartbeat=200&format=ndjson&encoding=text"
    try:
        wait_until(lambda: consumer_has(4), "all partitions for the consumer")
        with Stream(http_node, path) as stream:
            wait_until(lambda: consumer_has(2), "half of the partitions for the stream")
            fill(http_node, topic, [b"%d" % number for number in range(400)], partitions=4)
            mine = {each["value"] for each in stream.records(200)}
            wait_until(lambda: consumer_has(2) and len(theirs) == 200, "the records of the consumer")
            assert sorted([int(each) for each in mine] + [int(each) for each in theirs]) == list(range(400))
            ours = {int(each) % 4 for each in mine}
            wanted = [TopicPartition(topic, index) for index in ours]
            wait_until(
                lambda: [each.offset for each in consumer.committed(wanted, 10)] == [100, 100],
                "what the stream has written is committed",
            )
        wait_until(lambda: consumer_has(4), "the stream leaves")
        assert len(theirs) == 200
    finally:
        consumer.close()


def test_a_slow_reader_slows_only_itself(http_node: HttpNode, topic: str) -> None:
    values = [b"%05d" % number + b"x" * 10_000 for number in range(3000)]
    fill(http_node, topic, values[:1000])
    path = f"/topics/{topic}/stream?offset=0&format=ndjson&encoding=text"
    with Stream(http_node, path) as slow, Stream(http_node, path) as fast:
        before = resident_bytes(http_node)
        fill(http_node, topic, values[1000:])
        assert [each["offset"] for each in fast.records(3000)] == list(range(3000))
        assert resident_bytes(http_node) - before < 40 << 20
        assert [each["offset"] for each in slow.records(3000)] == list(range(3000))


def resident_bytes(node: HttpNode) -> int:
    status = Path(f"/proc/{node.broker.process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def test_many_idle_streams(http_node: HttpNode, topic: str) -> None:
    create(http_node, topic, 1)
    before = resident_bytes(http_node)
    with contextlib.ExitStack() as stack:
        path = f"/topics/{topic}/stream?format=ndjson&encoding=text"
        streams = [stack.enter_context(Stream(http_node, path)) for _ in range(200)]
        assert resident_bytes(http_node) - before < 200 * 100_000
        fill(http_node, topic, [b"all"])
        assert [each.records(1)[0]["value"] for each in streams] == ["all"] * 200


# -- in ----------------------------------------------------------------------------------------------------------------


def send(node: HttpNode, path: str, *lines: object) -> list[dict[str, Any]]:
    body = b"\n".join([each if isinstance(each, bytes) else json.dumps(each).encode() for each in lines])
    answer = ask(node.port, "POST", path, body, {"Content-Type": NDJSON})
    assert (answer.status, answer.headers["content-type"]) == (200, NDJSON), answer.body
    return [json.loads(line) for line in answer.body.splitlines()]


def read_all(node: HttpNode, topic: str, number: int, query: str = "encoding=text") -> list[dict[str, Any]]:
    with Stream(node, f"/topics/{topic}/stream?offset=0&format=ndjson&{query}") as stream:
        return stream.records(number)


def test_lines_become_records(http_node: HttpNode, topic: str) -> None:
    answers = send(
        http_node,
        f"/topics/{topic}",
        {"key": "k", "value": "text €", "timestamp": 5, "headers": {"a": "1", "b": None}},
        {"key": {"base64": "AP8="}, "value": {"n": 1.5, "s": "é"}, "headers": [["a", "1"], ["a", "2"]]},
        {"value": [1, None, True], "partition": 0},
        b"",
        {"value": None},
        {},
    )
    assert answers == [{"partition": 0, "offset": number} for number in range(5)]
    first, second, third, fourth, fifth = read_all(http_node, topic, 5)
    assert (first["key"], first["value"], first["timestamp"]) == ("k", "text €", 5)
    assert first["headers"] == [["a", "1"], ["b", None]]
    assert (second["key"], second["value"]) == ({"base64": "AP8="}, '{"n":1.5,"s":"é"}')
    assert second["headers"] == [["a", "1"], ["a", "2"]]
    assert third["value"] == "[1,null,true]"
    assert [each["value"] for each in (fourth, fifth)] == [None, None]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nonsense", "The line is not JSON"),
        (b"\xff", "The line is not JSON"),
        (b"[" * 100_000, "The line is not JSON"),
        (b'{"value": NaN}', "The line is not JSON"),
        (b"[1]", "The line must be an object"),
        (b'{"valeu": 1}', "'valeu' is none of"),
        (b'{"partition": -1}', "partition must be a number"),
        (b'{"partition": true}', "partition must be a number"),
        (b'{"partition": 3}', "There is no partition 3"),
        (b'{"timestamp": 1.5}', "timestamp must be a number"),
        (b'{"value": {"base64": "%"}}', "value must be a string"),
        (b'{"value": 1e999}', "value must be a string"),
        (b'{"key": "\\ud800"}', "half of a surrogate pair"),
        (b'{"headers": 7}', "headers must be an object"),
        (b'{"headers": [["a"]]}', "headers must be an object"),
        (b'{"headers": {"\\ud800": ""}}', "half of a surrogate pair"),
    ],
)
def test_a_wrong_line_is_answered_in_its_place(http_node: HttpNode, topic: str, line: bytes, message: str) -> None:
    first, wrong, last = send(http_node, f"/topics/{topic}", {"value": "a"}, line, {"value": "b"})
    assert (first, last) == ({"partition": 0, "offset": 0}, {"partition": 0, "offset": 1})
    assert wrong["error"]["code"] == 400
    assert message in wrong["error"]["message"]


def test_keys_choose_partitions_as_those_of_kafka_do(http_node: HttpNode, topic: str) -> None:
    create(http_node, topic, 7)
    keys = [f"key-{number}" for number in range(50)]
    theirs: dict[bytes, int] = {}
    producer = Producer({"bootstrap.servers": http_node.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    for key in keys:
        producer.produce(
            topic, b"", key, on_delivery=lambda _, message: theirs.update({message.key(): message.partition()})
        )
    assert producer.flush(20) == 0
    answers = send(http_node, f"/topics/{topic}", *[{"key": key} for key in keys])
    assert [each["partition"] for each in answers] == [theirs[key.encode()] for key in keys]


def test_refusals_of_the_log_concern_their_lines_only(http_node: HttpNode, topic: str) -> None:
    create(http_node, topic, 1, {"max.message.bytes": "2000"})
    large = {"value": "x" * 3000}
    answers = send(http_node, f"/topics/{topic}", *[{"value": "y" * 100}] * 50, large, *[{"value": "y" * 100}] * 50)
    assert answers[50]["error"]["kafkaError"] == "MESSAGE_TOO_LARGE"
    assert [each["offset"] for each in answers[:50] + answers[51:]] == list(range(100))


def test_a_line_that_is_too_long_is_skipped(http_node: HttpNode, topic: str) -> None:
    too_long = b'{"value": "' + b"x" * limits.HTTP_LINE_BYTES_MAX + b'"}'
    first, wrong, last = send(http_node, f"/topics/{topic}", {"value": "a"}, too_long, {"value": "b"})
    assert (first["offset"], last["offset"]) == (0, 1)
    assert wrong["error"]["message"] == f"The line has more than {limits.HTTP_LINE_BYTES_MAX} bytes."


def test_what_a_body_of_lines_must_be(http_node: HttpNode, topic: str) -> None:
    assert ask(http_node.port, "POST", f"/topics/{topic}", b"x", {"Content-Type": "text/csv"}).status == 415
    assert ask(http_node.port, "POST", f"/topics/{topic}?acks=2", b"{}", {"Content-Type": NDJSON}).status == 400
    assert ask(http_node.port, "POST", "/topics/..%2f", b"{}", {"Content-Type": NDJSON}).status == 400
    assert send(http_node, f"/topics/{topic}") == []
    assert send(http_node, f"/topics/{topic}?acks=0", {"value": "x"}) == [{"partition": 0, "offset": -1}]


@pytest.fixture
def upload(http_node: HttpNode, topic: str) -> Iterator[socket.socket]:
    """A connection on which the head of a request with a chunked body was sent."""
    with socket.create_connection(("127.0.0.1", http_node.port), timeout=TIMEOUT_S) as connection:
        connection.sendall(
            f"POST /topics/{topic} HTTP/1.1\r\nHost: node\r\nContent-Type: {NDJSON}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        yield connection


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def answers_of(connection: socket.socket) -> Iterator[dict[str, Any]]:
    response = http.client.HTTPResponse(connection)
    response.begin()
    assert response.status == 200
    while line := response.readline():
        yield json.loads(line)


def test_answers_come_while_lines_are_sent(http_node: HttpNode, upload: socket.socket) -> None:
    answers: Iterator[dict[str, Any]] | None = None
    for number in range(20):
        upload.sendall(chunk(b'{"value": "half '))
        upload.sendall(chunk(b'%d"}\n' % number))
        answers = answers or answers_of(upload)
        assert next(answers) == {"partition": 0, "offset": number}
    upload.sendall(chunk(b'{"value": "without an end"}') + b"0\r\n\r\n")
    assert answers is not None
    assert [each["offset"] for each in answers] == [20]


def test_a_body_that_breaks_off_keeps_what_it_had(http_node: HttpNode, topic: str, upload: socket.socket) -> None:
    upload.sendall(chunk(b'{"value": "whole"}\n{"value": "half'))
    answers = answers_of(upload)
    assert next(answers)["offset"] == 0
    upload.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    upload.close()
    assert send(http_node, f"/topics/{topic}", {"value": "next"}) == [{"partition": 0, "offset": 1}]


def test_a_long_body_in_bounded_memory(http_node: HttpNode, topic: str, upload: socket.socket) -> None:
    line = b'{"value":"%b"}\n' % (b"x" * 5_000)
    part, parts = chunk(line * 20), 2000
    before = resident_bytes(http_node)
    grown: list[int] = []

    def write() -> None:
        for number in range(parts):
            upload.sendall(part)
            if number % 100 == 0:
                grown.append(resident_bytes(http_node) - before)
        upload.sendall(b"0\r\n\r\n")

    writing = threading.Thread(target=write)
    writing.start()
    offsets = [each["offset"] for each in answers_of(upload)]
    writing.join()
    assert offsets == list(range(20 * parts))
    assert max(grown) < 64 << 20
