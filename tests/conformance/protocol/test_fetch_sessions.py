"""Incremental fetches as the Java client uses them, and fetches that wait."""

from __future__ import annotations

import threading
import time

from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import create_topic, fetch_request, produce_values
from tests.servers.wire import Connection

from tidelog.protocol.generated.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic

VERSION = 11
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71


def fetch(
    connection: Connection,
    session: tuple[int, int],
    wanted: dict[int, int] | None = None,
    *,
    topic: str = "",
    forgotten: list[int] | None = None,
) -> FetchResponse:
    """`session` is its id and epoch, `wanted` offsets by partition."""
    partitions = [
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        for partition, offset in (wanted or {}).items()
    ]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=forgotten)] if forgotten else [],
    )
    response: FetchResponse = connection.call(request, VERSION)
    return response


def answered(response: FetchResponse) -> dict[int, int]:
    """Partition -> size of its records."""
    return {
        partition.partition_index: len(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    }


def test_a_session_tells_only_what_changed(connection: Connection) -> None:
    topic = create_topic(connection, "session", partitions=3)
    first = fetch(connection, (0, 0), {0: 0, 1: 0, 2: 0}, topic=topic)
    assert first.error_code == 0
    assert first.session_id != 0
    assert answered(first) == {0: 0, 1: 0, 2: 0}
    session = first.session_id

    assert answered(fetch(connection, (session, 1))) == {}
    produce_values(connection, topic, b"x", partition=1)
    changed = answered(fetch(connection, (session, 2)))
    assert list(changed) == [1]
    assert changed[1] > 60
    assert list(answered(fetch(connection, (session, 3)))) == [1], "not fetched past, so told again"
    assert answered(fetch(connection, (session, 4), {1: 1}, topic=topic)) == {}

    produce_values(connection, topic, b"x", partition=2)
    assert answered(fetch(connection, (session, 5), topic=topic, forgotten=[2])) == {}
    produce_values(connection, topic, b"x", partition=0)
    assert list(answered(fetch(connection, (session, 6)))) == [0]


def test_an_unknown_session_and_a_wrong_epoch(connection: Connection) -> None:
    topic = create_topic(connection, "session")
    assert fetch(connection, (123_456_789, 1)).error_code == FETCH_SESSION_ID_NOT_FOUND
    session = fetch(connection, (0, 0), {0: 0}, topic=topic).session_id
    assert fetch(connection, (session, 5)).error_code == INVALID_FETCH_SESSION_EPOCH
    assert fetch(connection, (session, 1)).error_code == 0
    assert fetch(connection, (session, 1)).error_code == INVALID_FETCH_SESSION_EPOCH


def test_a_closed_session_is_gone(connection: Connection) -> None:
    topic = create_topic(connection, "session")
    session = fetch(connection, (0, 0), {0: 0}, topic=topic).session_id
    closed = fetch(connection, (session, -1), {0: 0}, topic=topic)
    assert (closed.error_code, closed.session_id) == (0, 0)
    assert fetch(connection, (session, 1)).error_code == FETCH_SESSION_ID_NOT_FOUND


def test_a_fetch_waits_for_its_bytes_and_no_longer(broker: BrokerProcess, connection: Connection) -> None:
    topic = create_topic(connection, "waits")
    request = fetch_request(topic, 0, max_wait_ms=60_000)
    request.min_bytes = 500
    answers: list[tuple[float, int]] = []

    def wait() -> None:
        with Connection(broker.port) as waiting:
            [answer] = waiting.call(request, VERSION).responses[0].partitions
            answers.append((time.monotonic(), len(answer.records or b"")))

    waiter = threading.Thread(target=wait)
    waiter.start()
    produce_values(connection, topic, b"x" * 100)
    waiter.join(0.5)
    assert answers == [], "answered with fewer bytes than asked for"
    produce_values(connection, topic, b"x" * 500)
    appended = time.monotonic()
    waiter.join(50)
    [(answered_at, size)] = answers
    assert answered_at - appended < 30, "answered by the deadline, not by the append"
    assert size >= 500


def test_a_fetch_ends_at_its_deadline(connection: Connection) -> None:
    topic = create_topic(connection, "deadline")
    started = time.monotonic()
    [answer] = connection.call(fetch_request(topic, 0, max_wait_ms=300), VERSION).responses[0].partitions
    assert (answer.error_code, bytes(answer.records or b"")) == (0, b"")
    assert 0.25 < time.monotonic() - started < 20


def test_requests_behind_a_waiting_fetch_are_answered_in_order(connection: Connection) -> None:
    """One connection, one order: the second answer comes after the first, however long that waits."""
    topic = create_topic(connection, "order")
    connection.send_frame(connection.frame(1, VERSION, fetch_request(topic, 0, max_wait_ms=300).encode(VERSION)))
    first = connection.last_correlation_id
    connection.send_frame(connection.frame(18, 0, b""))
    ids = [int.from_bytes(connection.receive_frame()[:4], "big") for _ in range(2)]
    assert ids == [first, first + 1]
