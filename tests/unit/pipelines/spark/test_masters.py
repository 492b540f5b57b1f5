"""Masters that are not there, and servers that are something else, are named in one line within the limit."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.spark.masters import check_master_answers


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_SPARK_MASTER_TIMEOUT", "0.5")


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that treats each connection by `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def master(connection: socket.socket) -> None:
    """Says that there is no such file, as a standalone master does: length, kind, name, reason."""
    assert len(connection.recv(100)) == 27
    connection.sendall(bytes.fromhex("0000000000000045 08 0000000e") + b"/files/tidelog" + bytes(42))


def other_server(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def server_with_tls(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"\x15\x03\x03\x00\x02\x02\x46")


def silent(connection: socket.socket) -> None:
    while connection.recv(1000):
        pass


def hanging_up(connection: socket.socket) -> None:
    connection.recv(100)


def refusal(address: str) -> str:
    began = time.monotonic()
    with pytest.raises(PipelineError) as error:
        check_master_answers(address)
    assert time.monotonic() - began < 10
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_master_answers() -> None:
    with server(master) as address, server(server_with_tls) as with_tls:
        check_master_answers(f"spark://{address}")
        check_master_answers(f"spark://{with_tls}")
        check_master_answers(f"spark://127.0.0.1:1,{address}")
    check_master_answers("local[2]")
    check_master_answers("yarn")


@pytest.mark.parametrize("answer", [other_server, hanging_up])
def test_what_listens_is_no_master(answer: Callable[[socket.socket], None]) -> None:
    with server(answer) as address:
        assert "what listens there is something else" in refusal(f"spark://{address}")


def test_silence_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(silent) as address:
        assert "nothing was said within 0.5 s" in refusal(f"spark://{address}")


def test_nothing_is_there() -> None:
    assert "no standalone master answers at spark://127.0.0.1:1: connection refused" in refusal("spark://127.0.0.1:1")
    assert "nowhere is no HOST:PORT" in refusal("spark://nowhere")


def test_a_limit_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_SPARK_MASTER_TIMEOUT", "soon")
    assert "'soon' is no number of seconds" in refusal("spark://127.0.0.1:1")


def test_a_connect_server_speaks_grpc() -> None:
    pytest.importorskip("pyspark.sql.connect.client")
    assert "no Spark Connect server answers at sc://127.0.0.1:1: connection refused" in refusal("sc://127.0.0.1:1")
    with server(silent) as address:
        assert "did not speak gRPC within 0.5 s" in refusal(f"sc://{address}")
