"""What is measured, and what of it must hold against Apache Kafka: one line per figure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

EVEN = 0.05
"""Clients and kernel make up most of some figures; a miss by less than this share is called even, not missed."""


class Verdict(Enum):
    OK = "ok"
    EVEN = "even"
    MISSED = "missed"
    UNKNOWN = ""


class Figure(NamedTuple):
    key: str
    """Case and quantity, as in the results file."""
    title: str
    unit: str
    at_most: float | None = None
    """Of the ratio Tidelog / Kafka."""
    at_least: float | None = None

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"<= {self.at_most:g}x"
        return f">= {self.at_least:g}x" if self.at_least is not None else ""

    def verdict(self, ratio: float | None) -> Verdict:
        if ratio is None or (self.at_most is None and self.at_least is None):
            return Verdict.UNKNOWN
        limit = self.at_most if self.at_most is not None else self.at_least
        assert limit is not None
        excess = ratio / limit - 1 if self.at_most is not None else 1 - ratio / limit
        if excess <= 0:
            return Verdict.OK
        return Verdict.EVEN if excess <= EVEN else Verdict.MISSED


FIGURES = (
    Figure("produce-100-16k.cpu_us", "produce 100 B, 16 KB batches (Java): broker CPU", "us/record", at_most=0.5),
    Figure("produce-100-16k.rate", "produce 100 B, 16 KB batches (Java): throughput", "records/s", at_least=1),
    Figure("produce-1k-16k.cpu_us", "produce 1 KB, 16 KB batches (Java): broker CPU", "us/record", at_most=0.5),
    Figure("produce-1k-16k.rate", "produce 1 KB, 16 KB batches (Java): throughput", "records/s", at_least=1),
    Figure(
        "produce-idempotent.cpu_us", "idempotent acks=all, 100 B, 16 KB (Java): broker CPU", "us/record", at_most=0.5
    ),
    Figure("produce-idempotent.rate", "idempotent acks=all, 100 B, 16 KB (Java): throughput", "records/s", at_least=1),
    Figure("produce-100-1m.cpu_us", "produce 100 B, 1 MB batches (librdkafka): broker CPU", "us/record", at_most=0.5),
    Figure("produce-100-1m.rate", "produce 100 B, 1 MB batches (librdkafka): throughput", "records/s", at_least=1),
    Figure("produce-1k-1m.cpu_us", "produce 1 KB, 1 MB batches (librdkafka): broker CPU", "us/record", at_most=0.5),
    Figure("produce-1k-1m.rate", "produce 1 KB, 1 MB batches (librdkafka): throughput", "records/s", at_least=1),
    Figure("consume-100.cpu_us", "consume 100 B (librdkafka): broker CPU", "us/record", at_most=0.7),
    Figure("consume-100.rate", "consume 100 B (librdkafka): throughput", "records/s", at_least=1),
    Figure("consume-1k.cpu_us", "consume 1 KB (librdkafka): broker CPU", "us/record", at_most=0.7),
    Figure("consume-1k.rate", "consume 1 KB (librdkafka): throughput", "records/s", at_least=1),
    Figure("consume-java.cpu_us", "consume 100 B, 16 KB batches (Java): broker CPU", "us/record", at_most=0.7),
    Figure("consume-java.rate", "consume 100 B, 16 KB batches (Java): throughput", "records/s", at_least=1),
    Figure("one-at-a-time.p50_ms", "one record at a time, acks=1: p50", "ms", at_most=0.5),
    Figure("one-at-a-time.p99_ms", "one record at a time, acks=1: p99", "ms", at_most=1),
    Figure("one-at-a-time.cpu_us", "one record at a time, acks=1: broker CPU", "us/record", at_most=0.5),
    Figure("bare-socket.p50_ms", "the same on a bare socket: p50", "ms"),
    Figure("bare-socket.p99_ms", "the same on a bare socket: p99", "ms"),
    Figure("bare-socket.cpu_us", "the same on a bare socket: broker CPU", "us/record"),
    Figure("echo.p50_ms", "the same where nothing is done (an echo, no broker): p50", "ms"),
    Figure("echo.p99_ms", "the same where nothing is done (an echo, no broker): p99", "ms"),
    Figure("echo.cpu_us", "the same where nothing is done (an echo, no broker): its CPU", "us/record"),
    Figure("end-to-end.p50_ms", "end to end at 1,000/s: p50", "ms", at_most=1),
    Figure("end-to-end.p99_ms", "end to end at 1,000/s: p99", "ms", at_most=1),
    Figure("end-to-end.cpu_us", "end to end at 1,000/s: broker CPU", "us/record"),
    Figure("groups-many-classic.stable_s", "1,000 groups of one member, classic: stable assignment", "s", at_most=0.5),
    Figure(
        "groups-many-classic.stable_cpu_s", "1,000 groups of one member, classic: broker CPU of that", "s", at_most=0.5
    ),
    Figure(
        "groups-many-classic.beat_cpu_us",
        "1,000 groups of one member, classic: broker CPU",
        "us/heartbeat",
        at_most=0.5,
    ),
    Figure("groups-many-classic.beat_rate", "1,000 groups of one member, classic: heartbeats", "1/s"),
    Figure("groups-many-consumer.stable_s", "1,000 groups of one member, KIP-848: stable assignment", "s", at_most=0.5),
    Figure(
        "groups-many-consumer.stable_cpu_s", "1,000 groups of one member, KIP-848: broker CPU of that", "s", at_most=0.5
    ),
    Figure(
        "groups-many-consumer.beat_cpu_us",
        "1,000 groups of one member, KIP-848: broker CPU",
        "us/heartbeat",
        at_most=0.5,
    ),
    Figure("groups-many-consumer.beat_rate", "1,000 groups of one member, KIP-848: heartbeats", "1/s"),
    Figure(
        "groups-large-classic.stable_s", "500 members, 1,000 partitions, classic: stable assignment", "s", at_most=0.5
    ),
    Figure(
        "groups-large-classic.stable_cpu_s",
        "500 members, 1,000 partitions, classic: broker CPU of that",
        "s",
        at_most=0.5,
    ),
    Figure(
        "groups-large-classic.beat_cpu_us",
        "500 members, 1,000 partitions, classic: broker CPU",
        "us/heartbeat",
        at_most=0.5,
    ),
    Figure("groups-large-classic.beat_rate", "500 members, 1,000 partitions, classic: heartbeats", "1/s"),
    Figure(
        "groups-large-consumer.stable_s", "500 members, 1,000 partitions, KIP-848: stable assignment", "s", at_most=0.5
    ),
    Figure(
        "groups-large-consumer.stable_cpu_s",
        "500 members, 1,000 partitions, KIP-848: broker CPU of that",
        "s",
        at_most=0.5,
    ),
    Figure(
        "groups-large-consumer.beat_cpu_us",
        "500 members, 1,000 partitions, KIP-848: broker CPU",
        "us/heartbeat",
        at_most=0.5,
    ),
    Figure("groups-large-consumer.beat_rate", "500 members, 1,000 partitions, KIP-848: heartbeats", "1/s"),
    Figure("groups-commits.rate", "commits of 10 partitions: throughput", "commits/s", at_least=1),
    Figure("groups-commits.cpu_us", "commits of 10 partitions: broker CPU", "us/commit", at_most=0.5),
    Figure("groups-replay.start_s", "start with 1,000,000 commit records, until all offsets are known", "s", at_most=1),
    Figure("groups-replay.cpu_s", "CPU of that start", "s"),
    Figure("groups.loaded_mib", "RSS after the groups", "MiB", at_most=0.1),
    Figure("cluster-16k.cpu_us", "3 nodes, acks=all, 16 KB batches (Java): CPU of all", "us/record", at_most=0.6),
    Figure("cluster-16k.rate", "3 nodes, acks=all, 16 KB batches (Java): throughput", "records/s"),
    Figure("cluster-1m.cpu_us", "3 nodes, acks=all, 1 MB batches (librdkafka): CPU of all", "us/record", at_most=0.6),
    Figure("cluster-1m.rate", "3 nodes, acks=all, 1 MB batches (librdkafka): throughput", "records/s"),
    Figure("cluster-one.p50_ms", "3 nodes, acks=all, one record at a time: p50", "ms"),
    Figure("cluster-one.p99_ms", "3 nodes, acks=all, one record at a time: p99", "ms", at_most=1),
    Figure("cluster-one.cpu_us", "3 nodes, acks=all, one record at a time: CPU of all", "us/record"),
    Figure("cluster-failover.leader_s", "3 nodes, leader killed: time without an acknowledgement", "s", at_most=1),
    Figure("cluster-failover.leader_worst_s", "3 nodes, leader killed: the worst of all kills", "s", at_most=1),
    Figure("cluster-failover.controller_s", "3 nodes, leader and controller killed: the same", "s", at_most=1),
    Figure("cluster-failover.controller_worst_s", "3 nodes, leader and controller killed: the worst", "s", at_most=1),
    Figure("cluster.loaded_mib", "3 nodes: RSS of all after the load", "MiB", at_most=0.1),
    Figure("nodes.one_rate", "--nodes 1, 32 partitions, one batch a request: throughput", "requests/s"),
    Figure("nodes.two_rate", "--nodes 2, 32 partitions, one batch a request: throughput", "requests/s"),
    Figure("nodes.growth", "--nodes 2 against --nodes 1", "x"),
    Figure("start.fresh_s", "start to first ack, fresh", "s", at_most=0.15),
    Figure("start.cpu_s", "CPU of that start", "s"),
    Figure("start.partitions_s", "1,000 partitions writable", "s", at_most=0.2),
    Figure("start.clean_s", "start to first ack after a clean stop with 1,000 partitions", "s", at_most=0.15),
    Figure("start.stop_s", "clean stop with 1,000 partitions", "s"),
    Figure("memory.idle_mib", "RSS idle", "MiB"),
    Figure("memory.loaded_mib", "RSS after the load", "MiB", at_most=0.1),
)

Samples = Mapping[str, Mapping[str, Sequence[float]]]
"""Broker -> figure -> one value per round."""


class Row(NamedTuple):
    figure: Figure
    tidelog: float | None
    kafka: float | None
    ratio: float | None
    verdict: Verdict


def summarise(samples: Samples) -> list[Row]:
    """Medians over the rounds and their ratio, for every figure that was measured at all."""
    rows = []
    for figure in FIGURES:
        tidelog, kafka = (_median(samples.get(kind, {}).get(figure.key)) for kind in ("tidelog", "kafka"))
        if tidelog is None and kafka is None:
            continue
        ratio = tidelog / kafka if tidelog is not None and kafka else None
        rows.append(Row(figure, tidelog, kafka, ratio, figure.verdict(ratio)))
    return rows


def _median(values: Sequence[float] | None) -> float | None:
    return statistics.median(values) if values else None
