"""The parts of a node that handlers call down to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.api.authorization import Authorizer
    from tidelog.config.broker import BrokerConfig
    from tidelog.controller.channel import ControllerChannel
    from tidelog.controller.cluster_membership import ClusterMembership
    from tidelog.controller.producer_ids import ProducerIds
    from tidelog.controller.service import ControllerService
    from tidelog.groups.coordinator import GroupCoordinator
    from tidelog.metadata.publisher import MetadataPublisher
    from tidelog.partitions.fetching import Fetching
    from tidelog.partitions.producing import Producing
    from tidelog.partitions.table import PartitionTable
    from tidelog.runtime.tasks import BackgroundTasks
    from tidelog.telemetry.metrics import NodeMetrics
    from tidelog.transactions.coordinator import TransactionCoordinator
    from tidelog.transactions.markers import MarkerWriter
    from tidelog.transactions.writes import TransactionalWrites


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One per node, shared by all requests."""

    node_id: int
    cluster_id: str
    config: BrokerConfig
    metadata: MetadataPublisher
    """`metadata.image` is the current immutable MetadataImage."""
    authorizer: Authorizer | None = None
    """None: everything is allowed."""
    controller: ControllerService
    """Decides where it is active; its `quorum` knows which node leads."""
    channel: ControllerChannel
    """The way to the active controller, wherever it is, and to the other nodes."""
    cluster: ClusterMembership
    """How nodes join, and how they are doing."""
    partitions: PartitionTable
    producing: Producing
    fetching: Fetching
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    transactional_writes: TransactionalWrites
    markers: MarkerWriter
    """Ends transactions in the partitions of this node."""
    metrics: NodeMetrics
    tasks: BackgroundTasks
    """Of requests whose answers come later."""
    now_ms: Callable[[], int]
    """Wall clock, for timestamps that people see; never for measuring how long something took."""
