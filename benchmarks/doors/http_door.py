"""The figures of the HTTP door: its cost beside that of an empty handler and of the Kafka door."""

from __future__ import annotations

import base64
import json
import time
from typing import NamedTuple

from tests.servers.broker_process import BrokerProcess, process_cpu_seconds

from benchmarks.doors.processes import run_client
from benchmarks.doors.requests import BATCH_RECORDS, VALUE
from benchmarks.doors.rows import Row


class Load(NamedTuple):
    cpu_us: float
    """Of the server, for each request."""
    p99_ms: float
    rate: float


def measure(node: BrokerProcess, door: int, empty_pid: int, empty_port: int, share: float) -> list[Row]:
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
    def run(count: int) -> dict[str, float]:
        return run_client("benchmarks.doors.load", request, "--port", port, "--rate", rate, "--requests", count)

    run(320 if rate else 1600)
    before_s = process_cpu_seconds(pid)
    answer = run(requests)
    cpu_s = process_cpu_seconds(pid) - before_s
    return Load(cpu_s * 1e6 / answer["requests"], answer["p99_ms"], answer["requests"] / answer["seconds"])


def _json_us() -> float:
    """What a record of the batch costs before anything is done with it."""
    body = json.dumps({"records": [base64.b64encode(VALUE).decode()] * BATCH_RECORDS})
    started_s = time.process_time()
    for _ in range(1000):
        for record in json.loads(body)["records"]:
            base64.b64decode(record, validate=True)
    return (time.process_time() - started_s) * 1e6 / (1000 * BATCH_RECORDS)
