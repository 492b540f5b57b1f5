"""What the nodes of a `Cluster` say about it. They are asked past every cut; the newest answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from tidelog.metadata.image import METADATA_TOPIC
from tidelog.net.client.errors import RpcError
from tidelog.net.client.pipelined import RpcClient
from tidelog.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.message import Message
from tidelog.testing.cluster_node import ClusterNode
from tidelog.testing.relay import HOST

M = TypeVar("M", bound=Message)

ANSWER_SECONDS_MAX = 1.0
METADATA_VERSION = 12
QUORUM_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    leader_id: int
    """-1 when it has none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]

    def is_newer_than(self, other: PartitionView) -> bool:
        """Within one leader epoch nothing says which set is newer: the smaller one promises less."""
        if self.leader_epoch != other.leader_epoch:
            return self.leader_epoch > other.leader_epoch
        return len(self.in_sync) < len(other.in_sync)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    live: dict[int, frozenset[int]]
    """By each node that answered: the nodes that it takes for alive."""
    partitions: dict[tuple[str, int], PartitionView]
    leaders: dict[int, dict[tuple[str, int], int]]
    """By each node that answered: the leader epochs that it knows."""

    def knows_all(self, node_id: int) -> bool:
        """Whether the node has heard of every partition and of its newest leader."""
        known = self.leaders[node_id]
        return all(known.get(where, -1) >= newest.leader_epoch for where, newest in self.partitions.items())


async def look(nodes: Iterable[ClusterNode]) -> ClusterView:
    asked = list(nodes)
    answers = await asyncio.gather(
        *(ask(node, MetadataRequest(topics=None), MetadataResponse, METADATA_VERSION) for node in asked)
    )
    live: dict[int, frozenset[int]] = {}
    partitions: dict[tuple[str, int], PartitionView] = {}
    leaders: dict[int, dict[tuple[str, int], int]] = {}
    for node, answer in zip(asked, answers, strict=True):
        if answer is None:
            continue
        live[node.node_id] = frozenset(broker.node_id for broker in answer.brokers)
        known = leaders[node.node_id] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                where = (topic.name or "", partition.partition_index)
                view = PartitionView(
                    leader_id=partition.leader_id,
                    leader_epoch=partition.leader_epoch,
                    replicas=tuple(partition.replica_nodes),
                    in_sync=tuple(sorted(partition.isr_nodes)),
                )
                known[where] = view.leader_epoch
                if where not in partitions or view.is_newer_than(partitions[where]):
                    partitions[where] = view
    return ClusterView(live=live, partitions=partitions, leaders=leaders)


async def find_controller(nodes: Iterable[ClusterNode]) -> int | None:
    """The number of the node that leads the metadata quorum, by the answer of the highest term."""
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    request = DescribeQuorumRequest(topics=[topic])
    answers = await asyncio.gather(*(ask(node, request, DescribeQuorumResponse, QUORUM_VERSION) for node in nodes))
    leaders = [
        (partition.leader_epoch, partition.leader_id)
        for answer in answers
        if answer is not None and not answer.error_code
        for topic in answer.topics
        for partition in topic.partitions
        if partition.leader_id >= 0
    ]
    return max(leaders)[1] if leaders else None


async def ask(
    node: ClusterNode, request: Message, answer: type[M], version: int, timeout_s: float = ANSWER_SECONDS_MAX
) -> M | None:
    """None when the node does not answer in time."""
    client = RpcClient(
        f"node {node.node_id}", lambda: (HOST, node.port), client_id="tidelog-testing", asks_versions=False
    )
    try:
        return await client.call(request, answer, version=version, timeout_s=timeout_s)
    except RpcError:
        return None
    finally:
        client.close()
