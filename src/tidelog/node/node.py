"""A node: takes its data directory, replays the metadata, opens its partitions, and serves clients until stopped.

The order of the start is the order in which promises can be kept: the lock before anything is read, the address
before anyone is told it, the partitions before the first request. The stop goes the other way round.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.api.context import Services
from tidelog.api.dispatcher import Dispatcher
from tidelog.config.broker import BrokerConfig
from tidelog.config.listener import parse_address
from tidelog.controller.core.alter_partition import IsrChange, IsrOutcome, decide_alter_partitions
from tidelog.controller.core.topics import NewTopic
from tidelog.controller.producer_ids import ProducerIds
from tidelog.controller.runner import Controller
from tidelog.coordination.partition_log import PartitionLog
from tidelog.coordination.partitioning import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.groups.coordinator import GroupCoordinator
from tidelog.metadata.image import Endpoint
from tidelog.model import limits
from tidelog.model.ids import decode_topic_id
from tidelog.net.budget import ByteBudget
from tidelog.net.listener import Listener, ListenError
from tidelog.net.rpc import RpcPool
from tidelog.node.errors import NodeStartError
from tidelog.partitions.fetch_session import FetchSessionCache
from tidelog.partitions.maintenance import Maintenance
from tidelog.partitions.replication.fetcher import FetcherIdentity
from tidelog.partitions.replication.replication import Replication
from tidelog.partitions.table import PartitionTable
from tidelog.runtime.clock import monotonic_s, wall_clock_ms
from tidelog.storage.directory_identity import DirectoryRefused
from tidelog.storage.log_directory import LogDirectory
from tidelog.telemetry.logs import get_logger
from tidelog.telemetry.metrics import LagSample, NodeMetrics
from tidelog.transactions.coordinator import TransactionCoordinator
from tidelog.transactions.markers import LocalMarkers

if TYPE_CHECKING:
    from tidelog.gateways.http.admin import AdminServer, Health

logger = get_logger("tidelog.node")

ANSWER_SECONDS_MAX = 1.0
"""How long a stop waits for requests that are being answered."""


class Node:
    """One node of a cluster, in the running event loop."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.metrics = NodeMetrics()
        self._is_ready = False
        self._broker_epoch = -1
        self._listeners: list[Listener] = []
        self._directory: LogDirectory | None = None
        self._controller: Controller | None = None
        self._table: PartitionTable | None = None
        self._pool: RpcPool | None = None
        self._replication: Replication | None = None
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._dispatcher: Dispatcher | None = None
        self._maintenance: Maintenance | None = None
        self._admin: AdminServer | None = None
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

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when clients can connect; raises NodeStartError, in one line, when they never will."""
        try:
            await self._start()
        except (DirectoryRefused, ListenError) as error:
            await self.stop()
            raise NodeStartError(str(error)) from None
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        config = self.config
        directory = self._directory = LogDirectory.open(
            Path(config.data_directory), node_id=config.node_id, cluster_id=config.cluster_id, now_ms=wall_clock_ms
        )
        await self._bind_listeners()
        self._controller = controller = Controller(
            directory.path, config, cluster_id=directory.cluster_id, now_ms=wall_clock_ms, executor=self._workers
        )
        await controller.start()
        self._broker_epoch = await controller.register_broker(
            self._endpoints(),
            directory_id=decode_topic_id(directory.directory_id),
            after_crash=not directory.clean_shutdown,
        )
        self._replication = replication = self._new_replication(controller, directory.cluster_id)
        table = PartitionTable(
            config=config,
            directory=directory,
            metrics=self.metrics,
            workers=self._workers,
            replication=replication,
        )
        await table.load(controller.image)
        self._table = table
        controller.metadata.prepare_with(table.prepare)
        controller.metadata.subscribe(table.apply)
        self._groups = groups = self._new_group_coordinator(controller, table)
        controller.metadata.subscribe(groups.metadata_changed)
        producer_ids = ProducerIds(controller)
        markers = LocalMarkers(table, groups.end_transaction)
        self._transactions = transactions = self._new_transaction_coordinator(controller, table, producer_ids, markers)
        controller.metadata.subscribe(transactions.metadata_changed)
        services = Services(
            node_id=config.node_id,
            cluster_id=directory.cluster_id,
            config=config,
            metadata=controller.metadata,
            controller=controller,
            partitions=table,
            fetch_sessions=FetchSessionCache(config.max_incremental_fetch_session_cache_slots),
            producer_ids=producer_ids,
            groups=groups,
            transactions=transactions,
            markers=markers,
            metrics=self.metrics,
            now_ms=wall_clock_ms,
        )
        self._dispatcher = Dispatcher(services, self.metrics)
        self._maintenance = Maintenance(config, table, directory, self.metrics, self._workers, wall_clock_ms)
        self._maintenance.start()
        replication.start()
        groups.start()
        transactions.start()
        self._offer_samples(table, groups, transactions)
        for listener in self._listeners:
            await listener.serve(self._dispatcher.dispatch)
        self._is_ready = True
        await self._start_admin()

    async def _bind_listeners(self) -> None:
        config = self.config
        budget = ByteBudget(
            config.queued_max_request_bytes if config.queued_max_request_bytes > 0 else limits.NODE_IN_FLIGHT_BYTES_MAX
        )
        for wanted in config.bound_listeners:
            listener = Listener(
                wanted.name,
                self.metrics,
                budget=budget,
                frame_bytes_max=config.socket_request_max_bytes,
                connections_max=min(config.max_connections, limits.CONNECTIONS_MAX),
                connections_per_host_max=config.max_connections_per_ip,
                requests_per_connection_max=config.queued_max_requests,
                backlog=config.socket_listen_backlog_size,
                send_buffer_bytes=config.socket_send_buffer_bytes,
                receive_buffer_bytes=config.socket_receive_buffer_bytes,
                idle_s=config.connections_max_idle_ms / 1000 if config.connections_max_idle_ms >= 0 else float("inf"),
                monotonic_s=monotonic_s,
            )
            await listener.bind(wanted.host, wanted.port)
            self._listeners.append(listener)

    def _offer_samples(
        self, table: PartitionTable, groups: GroupCoordinator, transactions: TransactionCoordinator
    ) -> None:
        """What is looked up when somebody scrapes, rather than counted all the time."""

        def sample_lag() -> Iterator[LagSample]:
            for group, topic, index, offset in groups.committed_offsets():
                partition = table.find_partition(topic, index)
                if partition is not None:
                    yield LagSample(group, topic, index, offset, max(0, partition.high_watermark - offset))

        self.metrics.sample_partitions = table.sample
        self.metrics.sample_groups = groups.sample_groups
        self.metrics.sample_lag = sample_lag
        self.metrics.sample_transactions = transactions.count_states

    def _endpoints(self) -> list[Endpoint]:
        """What clients are told: the advertised addresses, completed by what was really bound."""
        endpoints = []
        for told, bound in zip(self.config.told_listeners, self._listeners, strict=True):
            host = told.host if told.host not in ("", "0.0.0.0", "::") else socket.gethostname()
            endpoints.append(Endpoint(told.name, host, told.port or bound.port))
        return endpoints

    def _new_replication(self, controller: Controller, cluster_id: str) -> Replication:
        config = self.config

        def find_address(node_id: int) -> tuple[str, int] | None:
            broker = controller.image.brokers.get(node_id)
            name = config.inter_broker_listener_name or self._listeners[0].name
            endpoint = None if broker is None else broker.endpoint(name)
            return None if endpoint is None else (endpoint.host, endpoint.port)

        def alter_partitions(changes: Sequence[IsrChange]) -> Awaitable[list[IsrOutcome]]:
            return controller.submit(
                lambda image: decide_alter_partitions(image, config.node_id, self._broker_epoch, changes)
            )

        self._pool = RpcPool(find_address, client_id=f"node-{config.node_id}")
        identity = FetcherIdentity(config.node_id, lambda: self._broker_epoch, cluster_id)
        return Replication(config, self._pool, identity, alter_partitions)

    def _new_group_coordinator(self, controller: Controller, table: PartitionTable) -> GroupCoordinator:
        return GroupCoordinator(
            self.config,
            image=controller.image,
            open_log=partial(_open_log, table, OFFSETS_TOPIC),
            create_topic=lambda: controller.ensure_topic(OFFSETS_TOPIC),
        )

    def _new_transaction_coordinator(
        self, controller: Controller, table: PartitionTable, producer_ids: ProducerIds, markers: LocalMarkers
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

    async def _start_admin(self) -> None:
        if self.config.admin_listen is None:
            return
        from tidelog.gateways.http.admin import AdminListenError, AdminServer

        host, port = parse_address(self.config.admin_listen)
        admin = AdminServer(self, host, port)
        try:
            await admin.start()
        except AdminListenError as error:
            raise NodeStartError(str(error)) from None
        self._admin = admin

    # -- what the admin port asks ------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        return self._is_ready

    def health(self) -> Health:
        from tidelog.gateways.http.admin import Health

        offline = 0 if self._table is None else self._table.offline_count
        return Health(offline == 0, {"partitions": self.partition_count, "offline_partitions": offline})

    async def create_topic(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> None:
        """Makes a topic, ready to write to; BrokerError as a client would be answered."""
        assert self._controller is not None, "the node was started"
        [outcome] = await self._controller.create_topics(
            [NewTopic(name, partition_count=partitions, configs=tuple(configs.items()))]
        )
        if outcome.error is not None:
            raise outcome.error

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Answers what is being answered, then closes every log in good order; safe at any point of the start."""
        self._is_ready = False
        for listener in self._listeners:
            listener.stop_accepting()
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
        if self._pool is not None:
            self._pool.close()
        if self._maintenance is not None:
            await self._maintenance.stop()
        if self._controller is not None:
            await self._controller.stop()
        directory, self._directory = self._directory, None
        if directory is not None:
            await asyncio.get_running_loop().run_in_executor(self._workers, self._close, directory)
        self._workers.shutdown()

    async def _wait_for_answers(self) -> None:
        """Producers whose records are being synced would otherwise never hear that they are safe."""
        deadline_s = monotonic_s() + ANSWER_SECONDS_MAX
        while self.metrics.waiting_produces and monotonic_s() < deadline_s:
            await asyncio.sleep(0.005)

    def _close(self, directory: LogDirectory) -> None:
        high_watermarks = {} if self._table is None else self._table.high_watermarks()
        # A start that failed before all logs were open has not changed what the last owner left.
        is_clean = self._table is not None or directory.clean_shutdown
        directory.close(clean=is_clean, broker_epoch=self._broker_epoch, high_watermarks=high_watermarks)


def _open_log(table: PartitionTable, topic: str, index: int) -> PartitionLog | None:
    partition = table.find_partition(topic, index)
    return None if partition is None or not partition.is_leader else PartitionLog(partition)
