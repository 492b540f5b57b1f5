"""Three nodes, with gRPC doors or without."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.grpc.door_process import DoorProcess
from tests.conformance.grpc.stubs import Client
from tests.servers.broker_process import free_ports
from tests.waiting import wait_until

from tidelog.gateways.grpc.generated import mq_pb2 as mq

NODES = (1, 2, 3)


class Nodes:
    def __init__(self, processes: dict[int, DoorProcess]) -> None:
        self.processes = processes
        self.clients = {
            node_id: Client(process.grpc_port)
            for node_id, process in processes.items()
            if process.grpc_port is not None
        }

    def create(self, topic: str, partitions: int, replicas: int) -> None:
        """Returns when every node with a door has heard of the topic."""
        asked = mq.CreateTopicRequest(topic=topic, partitions=partitions, replication_factor=replicas)
        self.clients[1].mq.CreateTopic(asked)
        for client in self.clients.values():
            wait_until(lambda client=client: knows(client, topic), "every node knows the topic")  # type: ignore[misc]

    def leader(self, topic: str, asked: int, partition: int = 0) -> int:
        described = self.clients[asked].mq.DescribeTopic(mq.DescribeTopicRequest(topic=topic))
        return int(described.partition_info[partition].leader)


def knows(client: Client, topic: str) -> bool:
    return topic in client.mq.ListTopics(mq.ListTopicsRequest()).topics


@contextmanager
def three_nodes(directory: Path, *, without_door: frozenset[int] = frozenset()) -> Iterator[Nodes]:
    ports = dict(zip(NODES, free_ports(3), strict=True))
    voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports.items())
    processes = {}
    for node_id, port in ports.items():
        settings = {
            "node.id": str(node_id),
            "cluster.id": "MkU3OEVBNTcwNTJENDM2Qg",
            "controller.quorum.voters": voters,
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "default.replication.factor": "3",
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "300",
        }
        has_door = node_id not in without_door
        processes[node_id] = DoorProcess(directory / f"node-{node_id}", settings, port=port, has_door=has_door)
        processes[node_id].spawn()
    for process in processes.values():
        process.wait()
    started = Nodes(processes)
    wait_until(
        lambda: len(started.clients[1].mq.DescribeCluster(mq.DescribeClusterRequest()).brokers) == 3, "three nodes"
    )
    yield started
    for client in started.clients.values():
        client.close()
    for process in processes.values():
        process.end(signal.SIGKILL)
