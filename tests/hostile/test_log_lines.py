"""What peers send cannot fill the disk with log lines: a few of each kind, then a count."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from tests.servers.target import start_target
from tests.waiting import wait_until

from tidelog.telemetry.line_limits import LINES_PER_WINDOW

CONNECTIONS = 3000
REASONS = 2
"""Oversized and malformed: whatever garbage is, it is closed for one of these."""

GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 60,  # TLS
    b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    struct.pack(">i", -5),
    struct.pack(">i", 2**31 - 1),
    struct.pack(">ihhi", 8, 999, 0, 1),  # no such API
    struct.pack(">ihhi", 8, 0, 99, 1),  # no such version
    struct.pack(">ihhi", 8, 3, 1, 1),  # a header that ends too early
]


def send(port: int, garbage: bytes) -> None:
    """Returns when the broker has closed the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(garbage)
        try:
            while connection.recv(4096):
                pass
        except ConnectionResetError:
            pass


def test_thousands_of_garbage_connections_write_a_few_lines(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        admin_port = free.getsockname()[1]
    with start_target(tmp_path, {"admin.listen": f"127.0.0.1:{admin_port}"}) as broker:
        if broker.kind == "kafka":
            return
        wait_until(lambda: "admin port open" in broker.log_text(), "the admin port is open")
        before = broker.log_text().count("\n")
        for number in range(CONNECTIONS):
            send(broker.port, GARBAGE[number % len(GARBAGE)])
        for _ in range(100):
            send(admin_port, b"\x00garbage\r\n\r\n")
        lines = broker.log_text().splitlines()[before:]
        assert LINES_PER_WINDOW < len(lines) <= REASONS * LINES_PER_WINDOW + LINES_PER_WINDOW, lines[-5:]
        assert sum("closed a connection" in line for line in lines) == REASONS * LINES_PER_WINDOW
