"""One request at a time: answers, and every way a broker can fail to give one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack, unpack

import pytest

from tidelog.net.client.blocking import BlockingClient
from tidelog.net.client.errors import BadAnswer, PeerUnreachable, RpcTimedOut
from tidelog.protocol.generated.api_versions import ApiVersionsRequest
from tidelog.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.testing.broker import Broker

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
Serve = Callable[[socket.socket], None]


@contextmanager
def peer(serve: Serve) -> Iterator[int]:
    """The port of a server that treats its one connection as `serve` does, and closes it then."""

    def run() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(30)
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            thread.join(30)


def receive_request(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + unpack(">i", data[:4])[0]:
        data += connection.recv(1 << 16)
    return data[4:]


def heartbeat_response(correlation_id: int) -> bytes:
    body = HeartbeatResponse(error_code=correlation_id).encode(4)
    return pack(">iix", len(body) + 5, correlation_id) + body


def client(port: int, timeout_s: float = 30) -> BlockingClient:
    return BlockingClient("127.0.0.1", port, client_id="test", timeout_s=timeout_s)


def test_a_broker_answers(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, client(int(broker.bootstrap_servers.rpartition(":")[2])) as asking:
        for _ in range(2):
            answer = asking.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
            assert answer.error_code == 0
            assert answer.api_keys


def test_an_answer_may_come_in_pieces() -> None:
    def serve(connection: socket.socket) -> None:
        for number in (1, 2):
            receive_request(connection)
            for byte in heartbeat_response(number):
                connection.send(bytes([byte]))

    with peer(serve) as port, client(port) as asking:
        assert [asking.call(HEARTBEAT, 4).error_code for _ in range(2)] == [1, 2]


def test_a_broker_that_is_not_there_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(PeerUnreachable, match=f"cannot reach 127.0.0.1:{port}: "):
        client(port)


def test_a_broker_that_hangs_up_is_unreachable() -> None:
    def serve(connection: socket.socket) -> None:
        receive_request(connection)

    with peer(serve) as port, client(port) as asking, pytest.raises(PeerUnreachable, match="closed the connection"):
        asking.call(HEARTBEAT, 4)


def test_no_answer_in_time_is_an_error_even_when_bytes_trickle_in() -> None:
    is_over = threading.Event()

    def serve(connection: socket.socket) -> None:
        receive_request(connection)
        connection.send(pack(">i", 1000))
        while not is_over.wait(0.02):
            connection.send(b"x")

    with peer(serve) as port, client(port, timeout_s=0.3) as asking:
        with pytest.raises(RpcTimedOut, match=r"did not answer within 0\.3 s"):
            asking.call(HEARTBEAT, 4)
        is_over.set()


@pytest.mark.parametrize(
    "garbage",
    [pack(">i", 0x7FFFFFFF), pack(">i", -1), pack(">ii", 4, 999), pack(">iixb", 6, 1, 1)],
    ids=["too large", "negative size", "unknown correlation id", "short body"],
)
def test_garbage_is_a_bad_answer(garbage: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        receive_request(connection)
        connection.send(garbage)

    with peer(serve) as port, client(port) as asking, pytest.raises(BadAnswer):
        asking.call(HEARTBEAT, 4)
