"""What a cluster of three is measured by: acks=all on three replicas, and the loss of a leader."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.servers.apache_kafka import tool_command
from tests.servers.wire import Connection
from tests.waiting import wait_until

from benchmarks.cluster_processes import NODES, ClusterProcesses
from tidelog.protocol.generated.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)

SETTLE_S = 0.5
TIMEOUT_S = 240.0
KILLS = 5
"""Of each kind."""
_numbers = itertools.count()
Figures = dict[str, float]


class ClusterCase(NamedTuple):
    name: str
    run: Callable[[ClusterProcesses, float], Figures]
    """Cluster, and the share of the full number of records to use."""
    needs_java: bool = False
    """Its load comes from Kafka's own tools."""


def create_topic(cluster: ClusterProcesses, leader: int | None = None) -> str:
    """One partition on three nodes, all in sync; led by any, or by the one that is named."""
    name = f"bench-{next(_numbers)}"
    if leader is None:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=NODES)
    else:
        replicas = [leader, *(node_id for node_id in cluster.nodes if node_id != leader)]
        placed = [CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)]
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=placed)
    with Connection(cluster.port) as connection:
        [result] = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics
        assert result.error_code == 0, result
    wait_until(lambda: cluster.leader_and_in_sync(name)[1] == NODES, f"{name} is in sync", 60.0, 0.05)
    time.sleep(SETTLE_S)
    return name


def run_client(cluster: ClusterProcesses, kind: str, topic: str, records: int, *options: str) -> Figures:
    fixed = ("--bootstrap", cluster.bootstrap, "--topic", topic, "--records", str(records))
    command = [sys.executable, "-m", "benchmarks.client", kind, *fixed, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{kind} against {cluster.kind} failed: {done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout)
    return figures


def _cpu_us(cluster: ClusterProcesses, before_s: float, records: int) -> float:
    """CPU of the whole cluster per record; what it does a moment later counts."""
    time.sleep(SETTLE_S)
    return (cluster.cpu_seconds() - before_s) / records * 1e6


def small_batches(cluster: ClusterProcesses, share: float) -> Figures:
    """Kafka's ProducerPerformance with its batches of 16 KB."""
    records = int(1_000_000 * share)
    topic = create_topic(cluster)
    command = tool_command(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--num-records", str(records)),
        *("--record-size", "100", "--throughput", "-1", "--command-property", "batch.size=16384"),
        *("acks=all", "enable.idempotence=true"),
        heap="256M",
    )
    before_s = cluster.cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    cpu_us = _cpu_us(cluster, before_s, records)
    rates = re.findall(r"records sent, ([\d.]+) records/sec", done.stdout)
    if done.returncode != 0 or not rates:
        raise RuntimeError(f"ProducerPerformance against {cluster.kind} failed: {done.stdout[-500:]}{done.stderr}")
    return {"cluster-16k.cpu_us": cpu_us, "cluster-16k.rate": float(rates[-1])}


def large_batches(cluster: ClusterProcesses, share: float) -> Figures:
    """librdkafka with batches of 1 MB."""
    records = max(10_000, int(2_000_000 * share) // 10_000 * 10_000)
    topic = create_topic(cluster)
    before_s = cluster.cpu_seconds()
    produced = run_client(cluster, "produce", topic, records, "--acks", "all", "--idempotent")
    cpu_us = _cpu_us(cluster, before_s, records)
    return {"cluster-1m.cpu_us": cpu_us, "cluster-1m.rate": records / produced["seconds"]}


def one_at_a_time(cluster: ClusterProcesses, share: float) -> Figures:
    records = int(5000 * share)
    topic = create_topic(cluster)
    before_s = cluster.cpu_seconds()
    figures = run_client(cluster, "one-at-a-time", topic, records, "--acks", "all")
    cpu_us = _cpu_us(cluster, before_s, records)
    return {
        "cluster-one.p50_ms": figures["p50_ms"],
        "cluster-one.p99_ms": figures["p99_ms"],
        "cluster-one.cpu_us": cpu_us,
    }


def failover(cluster: ClusterProcesses) -> Iterator[Figures]:
    """The leader is killed under load, again and again: the longest time without an acknowledgement. In turn it is the
    controller too, which is the worst case, and it is not."""
    gaps_s: dict[str, list[float]] = {"leader": [], "controller": []}
    for name, found_s in (*gaps_s.items(),) * KILLS:
        controller = cluster.controller()
        victim = controller if name == "controller" else next(n for n in cluster.nodes if n != controller)
        found_s.append(_kill(cluster, victim))
        yield {f"cluster-failover.{name}_s": found_s[-1]}
    yield {f"cluster-failover.{name}_worst_s": max(found_s) for name, found_s in gaps_s.items()}


def _kill(cluster: ClusterProcesses, victim: int) -> float:
    """The gap of a producer whose leader it was; the node is back afterwards."""
    topic = create_topic(cluster, leader=victim)
    others = ",".join(node.bootstrap for node_id, node in cluster.nodes.items() if node_id != victim)
    command = [sys.executable, "-m", "benchmarks.client", "gap", "--bootstrap", others, "--topic", topic]
    command += ["--records", "0", "--acks", "all", "--seconds", "60"]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        time.sleep(SETTLE_S)
        cluster.nodes[victim].kill()
        output, errors = client.communicate("killed\n", timeout=120)
    if client.returncode != 0:
        raise RuntimeError(f"the producer of {cluster.kind} failed: {errors[-2000:]}")
    cluster.start_again(victim)
    wait_until(lambda: cluster.leader_and_in_sync(topic)[1] == NODES, f"{topic} is in sync again", 60.0, 0.05)
    return float(json.loads(output)["gap_s"])


FAILOVER = "cluster-failover"
CLUSTER_CASES = (
    ClusterCase("cluster-16k", small_batches, needs_java=True),
    ClusterCase("cluster-1m", large_batches),
    ClusterCase("cluster-one", one_at_a_time),
)
"""Run in rounds; `failover` comes last, because it restarts nodes."""
