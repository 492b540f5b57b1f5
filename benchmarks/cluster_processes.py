"""Three nodes of either kind on this machine, each a process of its own, counted together."""

from __future__ import annotations

import base64
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Self

from tests.servers import apache_kafka
from tests.servers.broker_process import BrokerFailure, BrokerProcess, free_port, port_answers
from tests.servers.tidelog_node import Program, spawn_tidelog
from tests.servers.wire import Connection, ConnectionLost
from tests.waiting import wait_until

from tidelog.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic

NODES = 3
START_TIMEOUT_S = 120.0
HEAP_FLAGS = ("-Xmx512M", "-Xms512M")
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}


Spawn = Callable[[], BrokerProcess]
"""Starts a node on what its directory holds, without waiting for anything."""


class ClusterProcesses:
    """As a context manager it is stopped at the end."""

    def __init__(self, kind: str, spawn: dict[int, Spawn]) -> None:
        self.kind = kind
        self._spawn = spawn
        self.nodes = {node_id: start() for node_id, start in spawn.items()}

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def alive(self) -> dict[int, BrokerProcess]:
        return {node_id: node for node_id, node in self.nodes.items() if node.alive()}

    @property
    def port(self) -> int:
        return next(iter(self.alive.values())).port

    def cpu_seconds(self) -> float:
        return sum(node.cpu_seconds() for node in self.alive.values())

    def rss_bytes(self) -> int:
        return sum(node.rss_bytes() for node in self.alive.values())

    def live_brokers(self) -> int:
        """How many nodes each node knows to be alive; the smallest such number."""
        counts = []
        for node in self.alive.values():
            try:
                with Connection(node.port) as connection:
                    counts.append(len(connection.call(MetadataRequest(topics=[]), 9).brokers))
            except (OSError, ConnectionLost):
                return 0
        return min(counts, default=0)

    def leader_and_in_sync(self, topic: str) -> tuple[int, int]:
        """Node id of the leader of partition 0, and how many replicas are in sync."""
        with Connection(self.port) as connection:
            answer = connection.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9).topics[0]
        if answer.error_code or not answer.partitions:
            return -1, 0
        partition = answer.partitions[0]
        return partition.leader_id, len(partition.isr_nodes)

    def controller(self) -> int:
        """Node id of the quorum's leader, as soon as there is one that all agree on."""
        found: list[int] = []

        def is_known() -> bool:
            found[:] = [self._quorum_leader(node.port) for node in self.alive.values()]
            return len(set(found)) == 1 and found[0] >= 0

        wait_until(is_known, "the quorum has a leader", START_TIMEOUT_S, 0.1)
        return found[0]

    @staticmethod
    def _quorum_leader(port: int) -> int:
        """As one node knows it; what Metadata calls the controller is any broker with Kafka."""
        partitions = [DescribeQuorumRequestPartitionData(partition_index=0)]
        topic = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=partitions)
        with Connection(port) as connection:
            answer = connection.call(DescribeQuorumRequest(topics=[topic]), 1)
        return -1 if answer.error_code else int(answer.topics[0].partitions[0].leader_id)

    def start_again(self, node_id: int) -> None:
        """A node that was killed; returns when all know it."""
        self.nodes[node_id] = self._spawn[node_id]()
        wait_until(lambda: self.live_brokers() == NODES, f"node {node_id} is back", START_TIMEOUT_S, 0.1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for node in self.alive.values():
            node.process.terminate()
        for node in self.nodes.values():
            try:
                node.process.wait(60)
            except subprocess.TimeoutExpired:
                node.kill()


def start_kafka_cluster(directory: Path) -> ClusterProcesses:
    return _start("kafka", _prepare_kafka(directory))


def start_tidelog_cluster(directory: Path, program: Program | None = None) -> ClusterProcesses:
    return _start("tidelog", _prepare_tidelog(directory, program))


def _start(kind: str, spawn: dict[int, Spawn]) -> ClusterProcesses:
    """Starts three nodes and returns when each of them knows all."""
    cluster = ClusterProcesses(kind, spawn)
    try:
        wait_until(
            lambda: len(cluster.alive) < NODES or all(port_answers(node.port) for node in cluster.nodes.values()),
            "every port answers",
            START_TIMEOUT_S,
        )
        if len(cluster.alive) < NODES:
            texts = [node.log_text()[-1000:] for node in cluster.nodes.values() if not node.alive()]
            raise BrokerFailure(f"a node of {kind} ended at start: {texts}")
        wait_until(lambda: cluster.live_brokers() == NODES, "every node knows all", START_TIMEOUT_S, 0.1)
        time.sleep(1.0)
    except BaseException:
        cluster.__exit__()
        raise
    return cluster


def _prepare_tidelog(directory: Path, program: Program | None) -> dict[int, Spawn]:
    ports = {node_id: free_port() for node_id in range(1, NODES + 1)}
    voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports.items())
    return {
        node_id: partial(
            spawn_tidelog,
            directory / f"{node_id}",
            port,
            settings={**SETTINGS, "node.id": str(node_id), "controller.quorum.voters": voters},
            program=program,
        )
        for node_id, port in ports.items()
    }


def _prepare_kafka(directory: Path) -> dict[int, Spawn]:
    ports = {node_id: (free_port(), free_port()) for node_id in range(1, NODES + 1)}
    voters = ",".join(f"{node_id}@127.0.0.1:{controller}" for node_id, (_, controller) in ports.items())
    cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
    spawn: dict[int, Spawn] = {}
    for node_id, (port, controller) in ports.items():
        place = directory / f"{node_id}"
        (place / "logs").mkdir(parents=True)
        settings = {
            **SETTINGS,
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        }
        _format_kafka(place, settings, cluster_id)
        spawn[node_id] = partial(apache_kafka.spawn_kafka, place, port, heap_flags=HEAP_FLAGS)
    return spawn


def _format_kafka(place: Path, settings: Mapping[str, str], cluster_id: str) -> None:
    path = apache_kafka.write_settings(place, 0, settings)
    # Voters that are all named in the settings need no bootstrap server.
    lines = [line for line in path.read_text().splitlines() if not line.startswith("controller.quorum.bootstrap")]
    path.write_text("\n".join(lines) + "\n")
    command = apache_kafka.tool_command("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(path))
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BrokerFailure(f"formatting {place} failed: {result.stdout}{result.stderr}")
