"""A node: takes its data directory, replays the metadata, opens its partitions, and serves clients until stopped.

The order of the start is the order in which promises can be kept: the lock before anything is read, the address
before anyone is told it, the partitions before the first request. The stop goes the other way round.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.api.context import Services
from tidelog.api.dispatcher import Dispatcher
from tidelog.api.kafka_door import KafkaDoor
from tidelog.config.broker import BrokerConfig
from tidelog.config.listener import parse_address
from tidelog.controller.core.alter_partition import IsrChange, IsrOutcome
from tidelog.controller.core.topics import NewTopic
from tidelog.controller.producer_ids import ProducerIds
from tidelog.controller.service import ControllerService
from tidelog.coordination.partition_log import PartitionLog
from tidelog.coordination.partitioning import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.groups.coordinator import GroupCoordinator
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import Endpoint
from tidelog.model import limits
from tidelog.net.listener import Listener, ListenError, ListenerSettings
from tidelog.net.shared import SharedByListeners
from tidelog.node.cluster import Cluster
from tidelog.node.errors import NodeStartError
from tidelog.node.local_layout import find_own_directory
from tidelog.node.samples import sample_lag, sample_node
from tidelog.node.statistics import NodeStatistics
from tidelog.partitions.fetching import Fetching
from tidelog.partitions.maintenance import Maintenance
from tidelog.partitions.producing import Producing
from tidelog.partitions.replication.controller_call import alter_partitions
from tidelog.partitions.replication.fetcher import FetcherIdentity
from tidelog.partitions.replication.replication import Replication
from tidelog.partitions.table import PartitionTable
from tidelog.raft.core.members import NO_MEMBERS
from tidelog.runtime.clock import monotonic_s, wall_clock_ms
from tidelog.runtime.loop_delay import LoopDelay
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.storage.directory_identity import DirectoryRefused, read_identity
from tidelog.storage.errors import StorageFailure
from tidelog.storage.log_directory import LogDirectory
from tidelog.telemetry.logs import get_logger
from tidelog.telemetry.metrics import NodeMetrics
from tidelog.transactions.cluster_markers import ClusterMarkers
from tidelog.transactions.coordinator import TransactionCoordinator
from tidelog.transactions.markers import LocalMarkers
from tidelog.transactions.remote_coordinator import RemoteCoordinator
from tidelog.transactions.writes import TransactionalWrites

if TYPE_CHECKING:
    from tidelog.gateways.http.admin import AdminServer
    from tidelog.metadata.image import MetadataImage
    from tidelog.node.joining import Joined
    from tidelog.raft.core.members import MemberSet

logger = get_logger("tidelog.node")

ORDINARY_START_SECONDS = 0.5
"""A start that takes longer (a recovery, a quorum that is not there) has its admin port answer meanwhile."""

ANSWER_SECONDS_MAX = 1.0
"""How long a stop waits for requests that are being answered."""


class Node:
    """One node of a cluster, in the running event loop."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.metrics = NodeMetrics()
        self._is_ready = False
        self.given_up: str | None = None
        """Why this node cannot go on, or the cluster does not want it any more."""
        self.stopped_by_cluster = asyncio.Event()
        self._listeners: list[Listener] = []
        self._directory: LogDirectory | None = None
        self._cluster: Cluster | None = None
        self._table: PartitionTable | None = None
        self._replication: Replication | None = None
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._dispatcher: Dispatcher | None = None
        self._maintenance: Maintenance | None = None
        self._admin: AdminServer | None = None
        self._admin_starting: asyncio.Task[None] | None = None
        self._loop_delay: LoopDelay | None = None
        self._started = asyncio.Event()
        self._workers = ThreadPoolExecutor(config.background_threads, thread_name_prefix="tidelog")

    # -- what others want to know --------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port of the first listener, as bound."""
        return self._listeners[0].port

    @property
    def address(self) -> str:
        host = self._listeners[0].host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def partition_count(self) -> int:
        return 0 if self._table is None else len(self._table)

    @property
    def is_controller(self) -> bool:
        """Whether this node decides for the cluster."""
        return self._cluster is not None and self._cluster.runner.is_active

    @property
    def metadata(self) -> MetadataImage:
        """The cluster as this node knows it."""
        assert self._cluster is not None, "the node was started"
        return self._cluster.runner.image

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when clients can connect; raises NodeStartError, in one line, when they never will."""
        try:
            await self._start()
        except (DirectoryRefused, ListenError, StorageFailure) as error:
            await self._stop_failed_start()
            raise NodeStartError(str(error)) from None
        except BaseException:
            await self._stop_failed_start()
            raise

    async def _stop_failed_start(self) -> None:
        if self._cluster is None and self._directory is not None and self._directory.abandon():
            # Nothing was written for the cluster, and no other node has heard of the directory.
            self._directory = None
        await self.stop()

    async def _start(self) -> None:
        if self.config.cordoned_log_dirs:
            raise NodeStartError("cordoned.log.dirs is set at run time (`tidelog cluster drain`), not for a start")
        self.config = find_own_directory(self.config)
        self._open_admin()
        voters, joined, cluster_id = await self._come_to_cluster()
        config = self.config
        directory = self._directory = LogDirectory.open(
            Path(config.data_directory),
            node_id=config.node_id,
            cluster_id=cluster_id,
            directory_id=None if joined is None else joined.directory_id,
            now_ms=wall_clock_ms,
        )
        if not self._listeners:
            await self._bind_listeners()
        self._cluster = cluster = Cluster(
            config,
            directory,
            endpoints=self._endpoints(),
            voters=voters,
            joined=joined,
            is_founder=not config.controller_quorum_voters and not config.controller_quorum_bootstrap_servers,
            executor=self._workers,
            give_up=self._give_up,
        )
        self._replication = replication = _new_replication(config, cluster, directory.cluster_id)
        table = PartitionTable(
            config=config,
            directory=directory,
            metrics=self.metrics,
            workers=self._workers,
            replication=replication,
        )
        services = self._build_services(cluster, table)
        alone = await cluster.start()
        if not alone:
            # The quorum needs this node before clients can have it.
            await self._serve(services)
        statistics = NodeStatistics(self.metrics, table, cluster.runner.metadata)
        image = await cluster.register(alone=alone, collect_statistics=statistics.collect)
        await table.load(image)
        self._table = table
        self._follow_metadata(cluster, table, services)
        self._maintenance = Maintenance(config, table, directory, self.metrics, self._workers, wall_clock_ms)
        self._maintenance.start()
        replication.start()
        services.groups.start()
        services.transactions.start()
        self._offer_samples(table, services)
        assert self._dispatcher is not None, "services were built"
        self._dispatcher.open()
        if alone:
            await self._serve(services)
        await cluster.begin_work()
        self._is_ready = True
        self._started.set()
        if self._admin_starting is not None:
            await self._admin_starting

    async def _come_to_cluster(self) -> tuple[MemberSet, Joined | None, str | None]:
        """The first voters, what the cluster said when it took this node in, and the cluster's id as far as known.

        A node that is not told of others founds a cluster, and imports nothing for this.
        """
        config = self.config
        if not config.controller_quorum_voters and not config.controller_quorum_bootstrap_servers:
            return NO_MEMBERS, None, config.cluster_id
        from tidelog.node.joining import cluster_id_of, contacts, parse_voters

        voters = parse_voters(config)
        where = contacts(config, voters)
        joined = await self._join(where) if where else None
        return voters, joined, self.config.cluster_id or cluster_id_of(voters, config.data_directory)

    async def _join(self, where: list[tuple[str, int]]) -> Joined | None:
        """Asks a member to take this node in; the node then has its number. None for one that goes on as it was."""
        from tidelog.node.joining import ask_to_join

        await self._bind_listeners()
        own = [(endpoint.host, endpoint.port) for endpoint in self._endpoints()]
        bound = [(listener.host, listener.port) for listener in self._listeners]
        joined = await ask_to_join(self.config, own, bound, where)
        known = joined or read_identity(self.config.data_directory)
        assert known is not None, "who was a member has a directory of its own"
        self.config = self.config.with_identity(known.node_id, known.cluster_id)
        return joined

    def _build_services(self, cluster: Cluster, table: PartitionTable) -> Services:
        config, service = self.config, cluster.service
        self._groups = groups = self._new_group_coordinator(service, table)
        producer_ids = ProducerIds(service)
        markers = LocalMarkers(table, groups.end_transaction)
        everywhere = ClusterMarkers(markers, config.node_id, lambda: service.image, cluster.peers.pool)
        self._transactions = transactions = self._new_transaction_coordinator(service, table, producer_ids, everywhere)
        metadata, node_id = cluster.runner.metadata, config.node_id
        cluster.connect()
        services = Services(
            node_id=config.node_id,
            cluster_id=cluster.runner.image.cluster_id,
            config=config,
            metadata=metadata,
            controller=service,
            channel=cluster.channel,
            cluster=cluster.membership,
            partitions=table,
            producing=Producing(table, metadata, self.metrics, wall_clock_ms),
            fetching=Fetching(table, config, metadata, self.metrics, wall_clock_ms),
            producer_ids=producer_ids,
            groups=groups,
            transactions=transactions,
            transactional_writes=TransactionalWrites(
                transactions, table, RemoteCoordinator(transactions, metadata, node_id, cluster.peers.pool)
            ),
            markers=markers,
            metrics=self.metrics,
            tasks=BackgroundTasks(),
            now_ms=wall_clock_ms,
        )
        self._dispatcher = Dispatcher(services)
        return services

    def _follow_metadata(self, cluster: Cluster, table: PartitionTable, services: Services) -> None:
        """In the order in which they need one another: partitions first, then what lives on them."""
        metadata = cluster.runner.metadata
        metadata.prepare_with(table.prepare)
        metadata.subscribe(table.apply)
        services.groups.metadata_changed(metadata.image, MetadataDelta(metadata.image))
        services.transactions.metadata_changed(metadata.image, MetadataDelta(metadata.image))
        metadata.subscribe(services.groups.metadata_changed)
        metadata.subscribe(services.transactions.metadata_changed)
        cluster.runner.publish()

    async def _serve(self, services: Services) -> None:
        assert self._dispatcher is not None, "services were built"
        for listener in self._listeners:
            await listener.serve(KafkaDoor(self._dispatcher).dispatch)

    def _give_up(self, reason: str) -> None:
        """The cluster goes on without this node."""
        if self.given_up is None:
            logger.error("this node stops", reason=reason)
            self.given_up = reason
            self.stopped_by_cluster.set()

    async def _bind_listeners(self) -> None:
        config = self.config
        wanted_bytes = config.queued_max_request_bytes
        budget_bytes = max(
            wanted_bytes if wanted_bytes > 0 else limits.NODE_IN_FLIGHT_BYTES_MAX,
            # The largest frame, its size in front of it, and a byte: a budget that is spent is not read for.
            config.socket_request_max_bytes + limits.FRAME_SIZE_BYTES + 1,
        )
        shared = SharedByListeners(self.metrics, monotonic_s, budget_bytes=budget_bytes)
        several = len(config.bound_listeners) > 1
        for wanted in config.bound_listeners:
            settings = ListenerSettings(
                name=wanted.name,
                frame_bytes_max=config.socket_request_max_bytes,
                connections_max=min(config.max_connections, limits.CONNECTIONS_MAX),
                connections_per_host_max=config.max_connections_per_ip,
                is_for_nodes=several and wanted.name == config.inter_broker_listener_name,
                requests_per_connection_max=config.queued_max_requests,
                backlog=config.socket_listen_backlog_size,
                send_buffer_bytes=config.socket_send_buffer_bytes,
                receive_buffer_bytes=config.socket_receive_buffer_bytes,
                idle_s=config.connections_max_idle_ms / 1000 if config.connections_max_idle_ms >= 0 else float("inf"),
            )
            listener = Listener(settings, shared)
            await listener.bind(wanted.host, wanted.port)
            self._listeners.append(listener)

    def _offer_samples(self, table: PartitionTable, services: Services) -> None:
        """What is looked up when somebody scrapes, rather than counted all the time."""
        assert self._cluster is not None, "the cluster comes before the samples"
        budget = self._listeners[0].shared.budget
        self.metrics.sample_node = partial(sample_node, services, self._cluster.runner, table, budget)
        self.metrics.sample_partitions = table.sample
        self.metrics.sample_groups = services.groups.sample_groups
        self.metrics.sample_lag = partial(sample_lag, services.groups, table)
        self.metrics.sample_transactions = services.transactions.count_states
        if self._admin is not None:
            self._loop_delay = LoopDelay(self.metrics.loop_delay.observe)
            self._loop_delay.start()

    def _endpoints(self) -> list[Endpoint]:
        """What clients are told: the advertised addresses, completed by what was really bound."""
        endpoints = []
        for advertised, bound in zip(self.config.effective_advertised_listeners, self._listeners, strict=True):
            host = advertised.host if advertised.host not in ("", "0.0.0.0", "::") else socket.gethostname()
            endpoints.append(Endpoint(advertised.name, host, advertised.port or bound.port))
        return endpoints

    def _new_group_coordinator(self, controller: ControllerService, table: PartitionTable) -> GroupCoordinator:
        return GroupCoordinator(
            self.config,
            image=controller.image,
            open_log=partial(_open_log, table, OFFSETS_TOPIC),
            create_topic=lambda: controller.ensure_topic(OFFSETS_TOPIC),
        )

    def _new_transaction_coordinator(
        self, controller: ControllerService, table: PartitionTable, producer_ids: ProducerIds, markers: ClusterMarkers
    ) -> TransactionCoordinator:
        return TransactionCoordinator(
            self.config,
            image=controller.image,
            open_log=partial(_open_log, table, TRANSACTIONS_TOPIC),
            create_topic=lambda: controller.ensure_topic(TRANSACTIONS_TOPIC),
            coordinator_epoch=lambda index: table.require(TRANSACTIONS_TOPIC, index).leader_epoch,
            next_producer_id=producer_ids.next_id,
            markers=markers,
        )

    def _open_admin(self) -> None:
        """Takes the admin port at once; who asks there is answered when the node has started, or takes long to."""
        if self.config.admin_listen is None:
            return
        from tidelog.gateways.http.admin import AdminListenError, AdminServer

        host, port = parse_address(self.config.admin_listen)
        admin = AdminServer(self, host, port)
        try:
            admin.bind()
        except AdminListenError as error:
            raise NodeStartError(str(error)) from None
        self._admin = admin
        self._admin_starting = asyncio.create_task(self._start_admin(admin))

    async def _start_admin(self, admin: AdminServer) -> None:
        """What it imports would make an ordinary start twice as long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ORDINARY_START_SECONDS):
                await self._started.wait()
        await admin.start()

    # -- what the admin port asks ------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        return self._is_ready

    def health(self) -> Mapping[str, object]:
        """Only facts: that it can be asked is what makes a node alive. A partition that is offline is told, and is no
        reason to end the node for all the others."""
        offline = 0 if self._table is None else self._table.offline_count
        return {"partitions": self.partition_count, "offline_partitions": offline}

    async def create_topic(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> None:
        """Makes a topic, ready to write to; BrokerError as a client would be answered."""
        assert self._cluster is not None, "the node was started"
        [outcome] = await self._cluster.service.create_topics(
            [NewTopic(name, partition_count=partitions, configs=tuple(configs.items()))]
        )
        if outcome.error is not None:
            raise outcome.error

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Answers what is being answered, then closes every log in good order; safe at any point of the start."""
        was_ready, self._is_ready = self._is_ready, False
        if was_ready and self._cluster is not None:
            await self._cluster.hand_over()
        for listener in self._listeners:
            listener.stop_accepting()
        if self._admin_starting is not None:
            self._admin_starting.cancel()
            await asyncio.gather(self._admin_starting, return_exceptions=True)
        if self._loop_delay is not None:
            self._loop_delay.stop()
        if self._admin is not None:
            await self._admin.stop()
        await self._wait_for_answers()
        for listener in self._listeners:
            listener.close_connections()
        if self._transactions is not None:
            await self._transactions.stop()
        if self._groups is not None:
            await self._groups.stop()
        if self._dispatcher is not None:
            await self._dispatcher.stop()
        if self._replication is not None:
            await self._replication.stop()
        if self._maintenance is not None:
            await self._maintenance.stop()
        if self._cluster is not None:
            await self._cluster.stop()
        directory, self._directory = self._directory, None
        if directory is not None:
            await asyncio.get_running_loop().run_in_executor(self._workers, self._close, directory)
        # A thread may hang in a system call: whoever waits for the stop must be able to give up.
        await asyncio.to_thread(self._workers.shutdown)

    async def _wait_for_answers(self) -> None:
        """Producers whose records are being synced would otherwise never hear that they are safe."""
        deadline_s = monotonic_s() + ANSWER_SECONDS_MAX
        while self.metrics.waiting_produces and monotonic_s() < deadline_s:
            await asyncio.sleep(0.005)

    def _close(self, directory: LogDirectory) -> None:
        high_watermarks = {} if self._table is None else self._table.high_watermarks()
        # A start that failed before all logs were open has not changed what the last owner left.
        is_clean = self._table is not None or directory.clean_shutdown
        broker_epoch = directory.last_broker_epoch
        if self._table is not None and self._cluster is not None:
            broker_epoch = self._cluster.service.broker_epoch
        directory.close(clean=is_clean, broker_epoch=broker_epoch, high_watermarks=high_watermarks)


def _new_replication(config: BrokerConfig, cluster: Cluster, cluster_id: str) -> Replication:
    def broker_epoch() -> int:
        return cluster.service.broker_epoch

    def alter(changes: Sequence[IsrChange]) -> Awaitable[list[IsrOutcome]]:
        return alter_partitions(cluster.service, cluster.channel, config.node_id, broker_epoch(), changes)

    return Replication(config, cluster.peers.pool, FetcherIdentity(config.node_id, broker_epoch, cluster_id), alter)


def _open_log(table: PartitionTable, topic: str, index: int) -> PartitionLog | None:
    partition = table.find_partition(topic, index)
    return None if partition is None or not partition.is_leader else PartitionLog(partition)
