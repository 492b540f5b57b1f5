"""What the parts of a node know anyway, gathered when the admin port is scraped."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from tidelog.metadata.image import NO_LEADER
from tidelog.telemetry.metrics import LagSample, NodeSample

if TYPE_CHECKING:
    from tidelog.api.context import Services
    from tidelog.controller.quorum_controller import QuorumController
    from tidelog.groups.coordinator import GroupCoordinator
    from tidelog.net.budget import ByteBudget
    from tidelog.partitions.table import PartitionTable
    from tidelog.runtime.disk import Disk, Room
    from tidelog.telemetry.metrics import NodeMetrics


def offer_samples(
    metrics: NodeMetrics, services: Services, controller: QuorumController, budget: ByteBudget, disk: Disk
) -> None:
    table, groups = services.partitions, services.groups
    metrics.sample_by(
        node=partial(sample_node, services, controller, budget, disk),
        partitions=table.sample,
        groups=groups.sample_groups,
        lag=partial(sample_lag, groups, table),
        transactions=services.transactions.count_states,
    )


def sample_node(services: Services, controller: QuorumController, budget: ByteBudget, disk: Disk) -> NodeSample:
    image = controller.image
    alive = sum(1 for _ in image.live_brokers())
    began_ms = services.transactions.oldest_start_ms()
    room = _room_at(services.config.data_directory, disk)
    return NodeSample(
        in_flight_bytes=budget.used_bytes,
        fetch_sessions=len(services.fetching.sessions),
        offline_partitions=services.partitions.offline_count,
        is_controller=controller.is_active,
        has_controller=controller.leader_id >= 0,
        nodes_alive=alive,
        nodes_fenced=len(image.brokers) - alive,
        partitions_without_leader=sum(
            partition.leader == NO_LEADER for topic in image.topics.values() for partition in topic.partitions.values()
        ),
        oldest_transaction_seconds=0.0 if began_ms is None else max(0, services.now_ms() - began_ms) / 1000,
        disk_free_bytes=None if room is None else room.free_bytes,
        disk_size_bytes=None if room is None else room.size_bytes,
    )


def sample_lag(groups: GroupCoordinator, table: PartitionTable) -> Iterator[LagSample]:
    """Of partitions on this node only: what others hold is not known here."""
    for group, topic, index, offset in groups.committed_offsets():
        partition = table.find_partition(topic, index)
        if partition is not None:
            yield LagSample(group, topic, index, offset, max(0, partition.high_watermark - offset))


def _room_at(directory: str, disk: Disk) -> Room | None:
    """None when the disk cannot be asked."""
    try:
        return disk.room_at(directory)
    except OSError:
        return None
