"""What answers requests: the coordinators, the services that handlers call down to, and the dispatcher."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.api.context import Services
from tidelog.api.dispatcher import Dispatcher
from tidelog.controller.producer_ids import ProducerIds
from tidelog.coordination.partition_log import PartitionLog
from tidelog.coordination.partitioning import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.groups.coordinator import GroupCoordinator
from tidelog.node.closing import Closing, Step
from tidelog.partitions.fetching import Fetching
from tidelog.partitions.producing import Producing
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.transactions.cluster_markers import ClusterMarkers
from tidelog.transactions.coordinator import TransactionCoordinator
from tidelog.transactions.markers import LocalMarkers
from tidelog.transactions.remote_coordinator import RemoteCoordinator
from tidelog.transactions.writes import TransactionalWrites

if TYPE_CHECKING:
    from tidelog.node.cluster import Cluster
    from tidelog.node.site import Site
    from tidelog.partitions.table import PartitionTable
    from tidelog.runtime.system import System
    from tidelog.telemetry.metrics import NodeMetrics


def build_services(
    site: Site, cluster: Cluster, table: PartitionTable, metrics: NodeMetrics, system: System
) -> Services:
    config, service, metadata = site.config, cluster.service, cluster.controller.metadata
    now_ms = system.wall_clock_ms
    groups = GroupCoordinator(
        config,
        image=service.image,
        open_log=partial(_open_log, table, OFFSETS_TOPIC),
        create_topic=lambda: service.ensure_topic(OFFSETS_TOPIC),
        random_bytes=system.random_bytes,
    )
    producer_ids = ProducerIds(service)
    markers = LocalMarkers(table, groups.end_transaction, now_ms)
    transactions = TransactionCoordinator(
        config,
        image=service.image,
        open_log=partial(_open_log, table, TRANSACTIONS_TOPIC),
        create_topic=lambda: service.ensure_topic(TRANSACTIONS_TOPIC),
        coordinator_epoch=lambda index: table.require(TRANSACTIONS_TOPIC, index).leader_epoch,
        next_producer_id=producer_ids.next_id,
        markers=ClusterMarkers(markers, config.node_id, lambda: service.image, cluster.peers.pool),
    )
    return Services(
        node_id=config.node_id,
        cluster_id=cluster.controller.image.cluster_id,
        config=config,
        metadata=metadata,
        controller=service,
        channel=cluster.channel,
        cluster=cluster.membership,
        partitions=table,
        producing=Producing(table, metadata, metrics, now_ms),
        fetching=Fetching(table, config, metadata, metrics, now_ms, system.monotonic_ms),
        producer_ids=producer_ids,
        groups=groups,
        transactions=transactions,
        transactional_writes=TransactionalWrites(
            transactions, table, RemoteCoordinator(transactions, metadata, config.node_id, cluster.peers.pool)
        ),
        markers=markers,
        metrics=metrics,
        tasks=BackgroundTasks(),
        now_ms=now_ms,
    )


def open_dispatcher(services: Services, closing: Closing) -> Dispatcher:
    """Answers other nodes, and clients once it is `open`."""
    dispatcher = Dispatcher(services)
    closing.note(Step.TRANSACTIONS, services.transactions.stop)
    closing.note(Step.GROUPS, services.groups.stop)
    closing.note(Step.DISPATCHER, dispatcher.stop)
    return dispatcher


def _open_log(table: PartitionTable, topic: str, index: int) -> PartitionLog | None:
    partition = table.find_partition(topic, index)
    return None if partition is None or not partition.is_leader else PartitionLog(partition)
