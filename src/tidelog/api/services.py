"""The parts of a node that handlers call down to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.controller.channel import ControllerChannel
    from tidelog.controller.cluster_membership import ClusterMembership
    from tidelog.controller.producer_ids import ProducerIds
    from tidelog.controller.service import ControllerService
    from tidelog.groups.coordinator import GroupCoordinator
    from tidelog.metadata.publisher import MetadataPublisher
    from tidelog.partitions.fetch_session import FetchSessionCache
    from tidelog.partitions.table import PartitionTable
    from tidelog.telemetry.metrics import NodeMetrics
    from tidelog.transactions.coordinator import TransactionCoordinator
    from tidelog.transactions.markers import MarkerWriter


@dataclass(slots=True)
class Services:
    """One per node, shared by all requests."""

    node_id: int
    cluster_id: str
    config: BrokerConfig
    metadata: MetadataPublisher
    """`metadata.image` is the current immutable MetadataImage."""
    controller: ControllerService
    """Decides where it is active; its `runner` knows who leads the metadata quorum."""
    channel: ControllerChannel
    """The way to the active controller, wherever it is."""
    cluster: ClusterMembership
    """How nodes join, and how they are doing."""
    partitions: PartitionTable
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    markers: MarkerWriter
    """Ends transactions in the partitions of this node."""
    metrics: NodeMetrics
    now_ms: Callable[[], int]
    """Wall clock, for timestamps that people see; never for measuring how long something took."""
