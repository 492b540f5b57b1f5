"""What one request and its answer cost on this machine when nothing is done with them.

The least that any broker can show: a process that reads what a client sends and writes as many bytes as a broker would
answer. Beside it stand the figures of the bare socket, which are the same requests sent to real brokers.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time

from tests.servers.broker_process import process_cpu_seconds

from benchmarks.client import latency_figures

ECHO = "echo"
EXCHANGES = 20_000
REQUEST_BYTES = 209
"""Of a produce with one record of 100 bytes."""
ANSWER_BYTES = 99

Figures = dict[str, float]


def measure_echo(share: float) -> Figures:
    exchanges = int(EXCHANGES * share)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-c", _SERVER, str(listener.fileno())]
        with subprocess.Popen(command, pass_fds=[listener.fileno()]) as server:
            with socket.create_connection(listener.getsockname()) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _exchange(connection, exchanges // 10)
                before_s = process_cpu_seconds(server.pid)
                values_ms = _exchange(connection, exchanges)
                cpu_us = (process_cpu_seconds(server.pid) - before_s) * 1e6 / exchanges
            assert server.wait(10) == 0
    figures = latency_figures(values_ms)
    return {f"{ECHO}.p50_ms": figures["p50_ms"], f"{ECHO}.p99_ms": figures["p99_ms"], f"{ECHO}.cpu_us": cpu_us}


def _exchange(connection: socket.socket, count: int) -> list[float]:
    request = bytes(REQUEST_BYTES)
    values_ms = []
    for _ in range(count):
        started = time.perf_counter()
        connection.sendall(request)
        missing = ANSWER_BYTES
        while missing:
            missing -= len(connection.recv(missing))
        values_ms.append((time.perf_counter() - started) * 1000)
    return values_ms


_SERVER = f"""\
import socket, sys
connection, _ = socket.socket(fileno=int(sys.argv[1])).accept()
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
missing, answer = {REQUEST_BYTES}, bytes({ANSWER_BYTES})
while data := connection.recv(missing):
    missing -= len(data)
    if not missing:
        connection.sendall(answer)
        missing = {REQUEST_BYTES}
"""
