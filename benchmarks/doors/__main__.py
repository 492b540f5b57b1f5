"""`python -m benchmarks.doors`: what a request costs at the other doors of a node, as ratios.

A door cannot cost less than its server library with an empty handler, nor less than what it asks of the log. So each is
measured beside both, in one run: the same load on an empty handler, on the Kafka door and on the door itself.
"""

from __future__ import annotations

import argparse
import base64
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.servers.broker_process import BrokerProcess, free_port, process_cpu_seconds
from tests.servers.http import post
from tests.servers.tidelog_node import start_tidelog

from benchmarks.doors.requests import BATCH_RECORDS, TOPIC, VALUE

TIMEOUT_S = 300.0


class Row(NamedTuple):
    title: str
    value: float
    unit: str
    limit: float | None = None
    """At most."""

    def show(self) -> str:
        verdict = "" if self.limit is None else "ok" if self.value <= self.limit else "missed"
        target = "" if self.limit is None else f"<= {self.limit:g}"
        return f"| {self.title} | {self.value:.2f} | {self.unit} | {target} | {verdict} |"


class Load(NamedTuple):
    cpu_us: float
    """Of the server, for each request."""
    p99_ms: float
    rate: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doors", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests, one round")
    args = parser.parse_args()
    rounds, share = (1, 0.1) if args.quick else (args.rounds, 1.0)
    with tempfile.TemporaryDirectory() as directory:
        door = free_port()
        with (
            start_tidelog(Path(directory), settings={"http.listen": f"127.0.0.1:{door}"}) as node,
            _empty_server() as (empty, empty_port),
        ):
            assert post(door, f"/topics/{TOPIC}/partitions/0", VALUE).status == 200
            found = [_round(node, door, empty.pid, empty_port, share) for _ in range(rounds)]
    print("| figure | value | unit | target | |\n|---|--:|---|---|---|")
    missed = False
    for rows in zip(*found, strict=True):
        row = rows[0]._replace(value=statistics.median(each.value for each in rows))
        missed |= row.limit is not None and row.value > row.limit
        print(row.show())
    return int(missed and not args.quick)


def _round(node: BrokerProcess, door: int, empty_pid: int, empty_port: int, share: float) -> list[Row]:
    requests = int(40_000 * share)
    empty = _load("http-empty", empty_port, empty_pid, requests)
    kafka = _load("kafka-one", node.port, node.pid, requests)
    publish = _load("http-publish", door, node.pid, requests)
    kafka_batch = _load("kafka-batch", node.port, node.pid, requests // 4)
    batch = _load("http-batch", door, node.pid, requests // 4)
    paced = _load("http-publish", door, node.pid, int(10_000 * share), rate=1000)
    json_us = _json_us()
    return [
        Row("an empty handler on the same server: CPU", empty.cpu_us, "us/request"),
        Row("Kafka door, one record: CPU", kafka.cpu_us, "us/request"),
        Row("HTTP publish: CPU", publish.cpu_us, "us/request", 60),
        Row(
            "HTTP publish / (empty handler + Kafka door)", publish.cpu_us / (empty.cpu_us + kafka.cpu_us), "ratio", 1.2
        ),
        Row("HTTP batch of 100: CPU", batch.cpu_us / BATCH_RECORDS, "us/record"),
        Row("decoding its JSON and base64 alone", json_us, "us/record"),
        Row(
            "HTTP batch of 100 / (Kafka door + JSON)",
            batch.cpu_us / BATCH_RECORDS / (kafka_batch.cpu_us / BATCH_RECORDS + json_us),
            "ratio",
            1.5,
        ),
        Row("HTTP publish at 1,000/s: p99", paced.p99_ms, "ms", 5),
        Row("HTTP publish, 16 connections", publish.rate, "requests/s"),
    ]


def _load(request: str, port: int, pid: int, requests: int, rate: float = 0) -> Load:
    command = [sys.executable, "-m", "benchmarks.doors.load", request, "--port", str(port), "--rate", str(rate)]
    _run([*command, "--requests", "1600"] if not rate else [*command, "--requests", "320"])
    before_s = process_cpu_seconds(pid)
    answer = _run([*command, "--requests", str(requests)])
    cpu_s = process_cpu_seconds(pid) - before_s
    return Load(cpu_s * 1e6 / answer["requests"], answer["p99_ms"], answer["requests"] / answer["seconds"])


def _run(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def _json_us() -> float:
    """What a record of the batch costs before anything is done with it."""
    body = json.dumps({"records": [base64.b64encode(VALUE).decode()] * BATCH_RECORDS})
    started_s = time.process_time()
    for _ in range(1000):
        for record in json.loads(body)["records"]:
            base64.b64decode(record, validate=True)
    return (time.process_time() - started_s) * 1e6 / (1000 * BATCH_RECORDS)


@contextmanager
def _empty_server() -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "benchmarks.doors.empty_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            yield server, int(server.stdout.readline())
        finally:
            server.stdin.close()


if __name__ == "__main__":
    raise SystemExit(main())
