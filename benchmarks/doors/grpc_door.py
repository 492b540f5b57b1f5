"""The figures of the gRPC door: single messages beside empty handlers on the same library, and batches alone."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from benchmarks.doors.processes import run_client
from benchmarks.doors.rows import Row

PAIRS = 5
"""Both are measured so often in turns, for a short time each: another program that takes a core meets one of them."""
RATIO_MIN = 0.75
BATCHED_RATE_MIN = 300_000


class Server(NamedTuple):
    port: int
    pid: int


def measure(door: Server, empty: Server, share: float) -> list[Row]:
    rows: list[Row] = []
    for kind, title, unit, count in (
        ("produce", "gRPC Produce", "calls/s", 4_000),
        ("produce-stream", "gRPC ProduceStream", "records/s", 40_000),
        ("subscribe", "gRPC Subscribe", "records/s", 40_000),
    ):
        bare: list[dict[str, float]] = []
        found: list[dict[str, float]] = []
        for _ in range(PAIRS):
            bare.append(_load(kind, empty, int(count * share)))
            found.append(_load(kind, door, int(count * share)))
        ratio = median(mine["rate"] / other["rate"] for mine, other in zip(found, bare, strict=True))
        rows += [
            Row(f"{title}, an empty one", median(each["rate"] for each in bare), unit),
            Row(f"{title}, an empty one: CPU", median(each["cpu_us"] for each in bare), "us"),
            Row(title, median(each["rate"] for each in found), unit),
            Row(f"{title}: CPU", median(each["cpu_us"] for each in found), "us"),
            Row(f"{title} / an empty one", ratio, "ratio", at_least=RATIO_MIN),
        ]
    for kind, title in (
        ("produce-batches", "tidelog.v1 Produce, batches of 1,000"),
        ("fetch-batches", "tidelog.v1 Fetch"),
        ("subscribe-batches", "tidelog.v1 Subscribe"),
    ):
        batched = _load(kind, door, int(1_000_000 * share))
        rows += [
            Row(title, batched["rate"], "records/s", at_least=BATCHED_RATE_MIN),
            Row(f"{title}: CPU", batched["cpu_us"], "us/record"),
        ]
    return rows


def _load(kind: str, server: Server, count: int) -> dict[str, float]:
    return run_client("benchmarks.doors.grpc_load", kind, "--port", server.port, "--pid", server.pid, "--count", count)
