"""Bytes that are no requests: an answer or an end of that connection, in bounded time and memory."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest
from tests.conformance.protocol.cases import BAD_CASES, GOOD_CASES, Case
from tests.conformance.protocol.world import TOPIC, World, set_up_world
from tests.servers.broker_process import BrokerProcess
from tests.servers.topics import produce_request
from tests.servers.wire import Connection, ConnectionLost

pytestmark = pytest.mark.usefixtures("bystander", "bounded_memory")


@pytest.fixture(scope="module")
def world(victim: BrokerProcess) -> Iterator[World]:
    prepared = set_up_world(victim.port)
    yield prepared
    prepared.connection.close()


def must_close(port: int, data: bytes) -> None:
    with Connection(port, timeout_s=60) as connection:
        connection.send_bytes(data)
        with pytest.raises(ConnectionLost):
            connection.receive_frame()


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 100 * 2**20 + 1, 0, 1, 7], ids=lambda size: f"size {size}")
def test_a_size_that_cannot_be(victim: BrokerProcess, size: int) -> None:
    must_close(victim.port, struct.pack(">i", size) + b"\0" * 64)


def test_random_bytes(victim: BrokerProcess) -> None:
    source = random.Random(1)
    for _ in range(300):
        with Connection(victim.port, timeout_s=60) as connection:
            try:
                connection.send_bytes(source.randbytes(source.randint(1, 2000)))
                connection.socket.shutdown(1)
                while True:
                    connection.receive_frame()
            except (ConnectionLost, OSError):
                continue


def test_random_bodies_behind_good_headers(victim: BrokerProcess) -> None:
    source = random.Random(2)
    for _ in range(1000):
        api_key, version = source.randint(0, 92), source.randint(0, 18)
        with Connection(victim.port, timeout_s=60) as connection:
            try:
                connection.call_raw(api_key, version, source.randbytes(source.randint(0, 200)))
            except ConnectionLost:
                continue
            except TimeoutError:
                pytest.fail(f"api {api_key} version {version} was not answered")


def test_a_frame_that_never_ends(victim: BrokerProcess) -> None:
    """Connections that announce much and leave: nothing stays behind."""
    for _ in range(50):
        with Connection(victim.port) as connection:
            connection.send_bytes(struct.pack(">i", 50 * 2**20) + b"\0" * 1000)
    with Connection(victim.port) as connection:
        assert connection.call_raw(18, 0, b"")


def mutations(body: bytes, source: random.Random, count: int) -> Iterator[bytes]:
    """Cut short, bytes changed, and sizes that claim far more than there is."""
    for _ in range(count):
        if not body:
            yield source.randbytes(20)
            continue
        position = source.randrange(len(body))
        kind = source.randrange(4)
        if kind == 0:
            yield body[:position]
        elif kind == 1:
            yield body[:position] + source.randbytes(1) + body[position + 1 :]
        elif kind == 2:
            yield body[:position] + source.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07")) + body[position + 4 :]
        else:
            yield body[:position] + source.randbytes(8) + body[position:]


@pytest.mark.parametrize("case", GOOD_CASES + BAD_CASES, ids=lambda case: case.name)
def test_requests_with_changed_bytes(victim: BrokerProcess, world: World, case: Case) -> None:
    if case.name.startswith(("create-topic", "create-partitions")):
        pytest.skip("changed bytes could ask for thousands of real partitions")
    source = random.Random(case.name)
    # A fetch may be changed into one that waits long, a produce into one without an answer; those are given up early.
    may_be_silent = case.name.startswith(("fetch", "produce"))
    timeout_s = 1 if may_be_silent else 60
    for version in {case.versions[0], case.versions[-1]}:
        request = case.build(world, version)
        assert request.API_KEY is not None
        connection = Connection(victim.port, timeout_s=timeout_s)
        for body in mutations(request.encode(version), source, 25):
            try:
                connection.call_raw(request.API_KEY, version, body)
            except ConnectionLost:
                connection.close()
                connection = Connection(victim.port, timeout_s=timeout_s)
            except TimeoutError:
                if not may_be_silent:
                    pytest.fail(f"version {version} was not answered: {body.hex()}")
                connection.close()
                connection = Connection(victim.port, timeout_s=timeout_s)
        connection.close()


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_arrays_that_claim_millions_of_elements(victim: BrokerProcess, version: int) -> None:
    # No transactional id, acks=1, no timeout, and then the number of topics.
    start, huge = (b"\0", b"\xff\xff\xff\xff\x07") if version >= 9 else (b"\xff\xff", b"\x7f\xff\xff\xff")
    with Connection(victim.port, timeout_s=60) as connection, pytest.raises(ConnectionLost):
        connection.call_raw(0, version, start + b"\0\1" + b"\0\0\0\0" + huge + b"\0" * 12)


def test_a_client_id_longer_than_the_frame(victim: BrokerProcess) -> None:
    frame = struct.pack(">hhih", 18, 0, 1, 32_000) + b"x"
    must_close(victim.port, struct.pack(">i", len(frame)) + frame)


def test_a_null_record_set_is_answered(victim: BrokerProcess, world: World) -> None:
    """Apache Kafka never answers this one."""
    if victim.kind == "kafka":
        pytest.skip("Apache Kafka 4.3.1 leaves a produce without records unanswered")
    request = produce_request(TOPIC, b"")
    request.topic_data[0].partition_data[0].records = None
    with Connection(victim.port, timeout_s=60) as connection:
        answer = connection.call(request, 9)
    assert answer.responses[0].partition_responses[0].error_code != 0
