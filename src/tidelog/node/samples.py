"""What the parts of a node know anyway, gathered when the admin port is scraped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.metadata.image import NO_LEADER
from tidelog.telemetry.metrics import LagSample, NodeSample

if TYPE_CHECKING:
    from tidelog.api.context import Services
    from tidelog.controller.quorum_controller import QuorumController
    from tidelog.groups.coordinator import GroupCoordinator
    from tidelog.net.budget import ByteBudget
    from tidelog.partitions.table import PartitionTable


def sample_node(
    services: Services, controller: QuorumController, table: PartitionTable, budget: ByteBudget
) -> NodeSample:
    image = controller.image
    alive = sum(1 for _ in image.live_brokers())
    began_ms = services.transactions.oldest_start_ms()
    free_bytes, size_bytes = _disk_bytes(services.config.data_directory)
    return NodeSample(
        in_flight_bytes=budget.used_bytes,
        fetch_sessions=len(services.fetching.sessions),
        offline_partitions=table.offline_count,
        is_controller=controller.is_active,
        has_controller=controller.leader_id >= 0,
        nodes_alive=alive,
        nodes_fenced=len(image.brokers) - alive,
        partitions_without_leader=sum(
            partition.leader == NO_LEADER for topic in image.topics.values() for partition in topic.partitions.values()
        ),
        oldest_transaction_seconds=0.0 if began_ms is None else max(0, services.now_ms() - began_ms) / 1000,
        disk_free_bytes=free_bytes,
        disk_size_bytes=size_bytes,
    )


def sample_lag(groups: GroupCoordinator, table: PartitionTable) -> Iterator[LagSample]:
    """Of partitions on this node only: what others hold is not known here."""
    for group, topic, index, offset in groups.committed_offsets():
        partition = table.find_partition(topic, index)
        if partition is not None:
            yield LagSample(group, topic, index, offset, max(0, partition.high_watermark - offset))


def _disk_bytes(directory: str) -> tuple[int | None, int | None]:
    """Free for this process, and in all."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None, None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
