"""What any node knows of its cluster, gathered over one connection: brokers, quorum, partitions, statistics."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tidelog.cli.errors import CommandError
from tidelog.cli.wire import BrokerConnection
from tidelog.config.lowered import Lowered
from tidelog.metadata.image import METADATA_TOPIC, NO_LEADER
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.private_apis import STATISTICS_API_KEY

ELECTION_SECONDS_MAX = 2.0
"""How long a node may know no controller before the quorum counts as lost; an election takes a fraction of it."""
POLL_SECONDS = 0.1


class PartitionPlace(NamedTuple):
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Broker(NamedTuple):
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class ClusterState:
    def __init__(
        self,
        cluster_id: str,
        controller_id: int,
        brokers: dict[int, Broker],
        partitions: dict[TopicPartition, PartitionPlace],
        quorum: dict[str, Any],
        statistics: dict[int, dict[str, Any]],
        drained: Iterable[int] = (),
        lowered: Mapping[str, Lowered] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = brokers
        self.partitions = partitions
        self.quorum = quorum
        """Empty when the quorum has no leader."""
        self.statistics = statistics
        self.drained = frozenset(drained)
        """Nodes that keep what they have and get no new replicas."""
        self.lowered = dict(lowered or {})
        """Topics that drains have taken replicas from."""

    @property
    def under_replicated(self) -> list[tuple[TopicPartition, PartitionPlace]]:
        return [(p, s) for p, s in self.partitions.items() if s.leader != NO_LEADER and len(s.isr) < len(s.replicas)]

    @property
    def leaderless(self) -> list[tuple[TopicPartition, PartitionPlace]]:
        return [(p, s) for p, s in self.partitions.items() if s.leader == NO_LEADER]

    def placement(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {partition: place.replicas for partition, place in self.partitions.items()}

    def is_alive(self, node_id: int) -> bool:
        return node_id in self.brokers and not self.brokers[node_id].is_fenced

    def live_racks(self) -> dict[int, str | None]:
        return {node_id: broker.rack for node_id, broker in self.brokers.items() if self.is_alive(node_id)}

    def open_racks(self) -> dict[int, str | None]:
        """Of the nodes that may take replicas."""
        return {node_id: rack for node_id, rack in self.live_racks().items() if node_id not in self.drained}

    def lowered_factors(self) -> dict[str, int]:
        return {topic: lowered.factor for topic, lowered in self.lowered.items()}

    def lowered_topics(self) -> list[dict[str, Any]]:
        described = []
        for topic, lowered in sorted(self.lowered.items()):
            counts = [len(place.replicas) for partition, place in self.partitions.items() if partition.topic == topic]
            if not counts:
                continue
            # A node that was undrained is no longer a cause, while another one still is.
            causes = [node_id for node_id in lowered.nodes if node_id in self.drained] or list(lowered.nodes)
            described.append({"topic": topic, "replicas": min(counts), "factor": lowered.factor, "drained": causes})
        return described

    def _state_of(self, node_id: int) -> str:
        state = "alive" if self.is_alive(node_id) else "fenced"
        if not self.quorum:
            # Only a controller hears from all nodes; what the others know is old.
            state = "unknown"
        return f"{state}, drained" if node_id in self.drained else state

    def nodes(self) -> list[dict[str, Any]]:
        described = []
        for node_id, broker in sorted(self.brokers.items()):
            described.append(
                {
                    "node_id": node_id,
                    "address": f"{broker.host}:{broker.port}",
                    "rack": broker.rack,
                    "state": self._state_of(node_id),
                    "quorum": self._role(node_id),
                    "leaders": sum(place.leader == node_id for place in self.partitions.values()),
                    "replicas": sum(node_id in place.replicas for place in self.partitions.values()),
                    "statistics": {} if broker.is_fenced else self.statistics.get(node_id, {}),
                }
            )
        return described

    def knows(self, node_id: int) -> bool:
        """As a broker, or only as a member of the quorum: a removal that was cut short leaves such."""
        return node_id in self.brokers or self._role(node_id) != "-"

    def _role(self, node_id: int) -> str:
        if node_id == self.quorum.get("leader"):
            return "leader"
        if any(voter["node_id"] == node_id for voter in self.quorum.get("voters", ())):
            return "voter"
        return "learner" if any(o["node_id"] == node_id for o in self.quorum.get("learners", ())) else "-"

    def document(self) -> dict[str, Any]:
        return {
            "cluster_id": self.cluster_id,
            "controller": self.controller_id,
            "quorum": self.quorum,
            "nodes": self.nodes(),
            "partitions": len(self.partitions),
            "under_replicated": [_describe(p, s) for p, s in self.under_replicated],
            "without_leader": [_describe(p, s) for p, s in self.leaderless],
            "lowered": self.lowered_topics(),
        }


def _describe(partition: TopicPartition, place: PartitionPlace) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "leader": place.leader,
        "replicas": list(place.replicas),
        "isr": list(place.isr),
    }


def read_state(connection: BrokerConnection) -> ClusterState:
    from tidelog.protocol.generated.describe_cluster import DescribeClusterRequest
    from tidelog.protocol.generated.metadata import MetadataRequest

    cluster = connection.call(DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True), 2)
    if cluster.error_code:
        raise CommandError(f"the cluster cannot be described: {ErrorCode(cluster.error_code).name}")
    metadata = connection.call(MetadataRequest(topics=None), 12)
    partitions = {
        TopicPartition(topic.name, found.partition_index): PartitionPlace(
            found.leader_id, tuple(found.replica_nodes), tuple(found.isr_nodes)
        )
        for topic in metadata.topics
        for found in sorted(topic.partitions, key=lambda found: found.partition_index)
    }
    statistics = connection.call_json(STATISTICS_API_KEY, {})
    quorum = _read_quorum(connection) if _wait_for_controller(connection, statistics) else {}
    return ClusterState(
        cluster.cluster_id,
        # DescribeCluster was answered earlier, perhaps during an election, or with the last one that the node knew.
        quorum.get("leader", NO_LEADER),
        {b.broker_id: Broker(b.host, b.port, b.rack, b.is_fenced) for b in cluster.brokers},
        partitions,
        quorum,
        {int(node_id): dict(numbers) for node_id, numbers in statistics.get("nodes", {}).items()},
        map(int, statistics.get("drained", ())),
        {name: Lowered(int(factor), tuple(nodes)) for name, (factor, nodes) in statistics.get("lowered", {}).items()},
    )


def _wait_for_controller(connection: BrokerConnection, statistics: dict[str, Any]) -> bool:
    """False when the node still knows none after an election: it would let DescribeQuorum wait for several seconds."""
    deadline_s = time.monotonic() + ELECTION_SECONDS_MAX
    # Nodes of before 0.2.0 do not say.
    while not statistics.get("has_controller", True):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(POLL_SECONDS)
        statistics = connection.call_json(STATISTICS_API_KEY, {})
    return True


def _read_quorum(connection: BrokerConnection) -> dict[str, Any]:
    from tidelog.protocol.generated.describe_quorum import (
        DescribeQuorumRequest,
        DescribeQuorumRequestPartitionData,
        DescribeQuorumRequestTopicData,
    )

    request = DescribeQuorumRequest(
        topics=[
            DescribeQuorumRequestTopicData(
                topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)]
            )
        ]
    )
    answer = connection.call(request, 2)
    if answer.error_code or not answer.topics:
        return {}
    [found] = answer.topics[0].partitions

    def describe(replicas: Any) -> list[dict[str, Any]]:
        end = max((each.log_end_offset for each in found.current_voters), default=0)
        return [
            {"node_id": r.replica_id, "log_end_offset": r.log_end_offset, "lag": end - r.log_end_offset}
            for r in replicas
        ]

    return {
        "leader": found.leader_id,
        "term": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "voters": describe(found.current_voters),
        "learners": describe(found.observers),
    }
