"""A node: takes its data directory, replays the metadata, opens its partitions, and serves clients until stopped.

The order of the start is the order in which promises can be kept: the lock before anything is read, the address
before it is advertised, the partitions before the first request. Each stage is made from the one before and says how
it is closed (`closing.py`), so a start that fails anywhere closes what it had opened.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tidelog.api.kafka_door import KafkaDoor
from tidelog.controller.core.topics import NewTopic
from tidelog.metadata.delta import MetadataDelta
from tidelog.net.listener import ListenError
from tidelog.node.closing import Closing, Step
from tidelog.node.cluster import Cluster, join_quorum, open_cluster
from tidelog.node.doors import bind_doors
from tidelog.node.environment import ENVIRONMENT, Environment
from tidelog.node.errors import NodeStartError
from tidelog.node.local_layout import find_own_directory
from tidelog.node.registration import begin_work, new_lifecycle, register
from tidelog.node.samples import offer_samples
from tidelog.node.services import build_services, open_dispatcher
from tidelog.node.site import Site, close_unchanged, open_directory
from tidelog.node.stages import Loaded, NotPlaced, Placed, Stage
from tidelog.node.statistics import NodeStatistics
from tidelog.node.way_in import WayIn, ask_to_be_let_in, find_way_in
from tidelog.partitions.maintenance import Maintenance
from tidelog.partitions.replication.controller_call import alter_partitions
from tidelog.partitions.replication.fetcher import FetcherIdentity
from tidelog.partitions.replication.replication import Replication
from tidelog.partitions.table import PartitionTable
from tidelog.storage.errors import StorageFailure
from tidelog.storage.log_directory_identity import DirectoryRefused
from tidelog.telemetry.logs import get_logger
from tidelog.telemetry.metrics import NodeMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from tidelog.api.context import Services
    from tidelog.config.broker import BrokerConfig
    from tidelog.controller.core.alter_partition import IsrChange, IsrOutcome
    from tidelog.metadata.image import MetadataImage
    from tidelog.node.admin_door import AdminDoor

logger = get_logger("tidelog.node")


class Node:
    """One node of a cluster, in the running event loop."""

    def __init__(self, config: BrokerConfig, environment: Environment = ENVIRONMENT) -> None:
        self.config = config
        """From the start on with the number that the node has in its cluster."""
        self.metrics = NodeMetrics()
        self.given_up: str | None = None
        """Why this node cannot go on, or the cluster does not want it any more."""
        self.stopped_by_cluster = asyncio.Event()
        self._environment = environment
        self._closing = Closing()
        self._stage: Stage = NotPlaced()
        self._is_ready = False

    # -- what others want to know --------------------------------------------------------------------------------------

    @property
    def stage(self) -> Stage:
        """How far the node has come. What has ended stays to be looked at."""
        return self._stage

    @property
    def port(self) -> int:
        """The port of the first listener, as bound."""
        return self._placed.site.doors.port

    @property
    def address(self) -> str:
        return self._placed.site.doors.address

    @property
    def partition_count(self) -> int:
        return len(self._stage.table) if isinstance(self._stage, Loaded) else 0

    @property
    def is_controller(self) -> bool:
        """Whether this node decides for the cluster."""
        return not isinstance(self._stage, NotPlaced) and self._stage.cluster.controller.is_active

    @property
    def metadata(self) -> MetadataImage:
        """The cluster as this node knows it."""
        return self._placed.cluster.controller.image

    @property
    def _placed(self) -> Placed | Loaded:
        if isinstance(self._stage, NotPlaced):
            raise RuntimeError("the node was not started")
        return self._stage

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when clients can connect; raises NodeStartError, in one line, when they never will."""
        try:
            await self._start()
        except (DirectoryRefused, ListenError, StorageFailure) as error:
            await self.stop()
            raise NodeStartError(str(error)) from None
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        if self.config.cordoned_log_dirs:
            raise NodeStartError("cordoned.log.dirs is set at run time (`tidelog cluster drain`), not for a start")
        environment, closing = self._environment, self._closing
        workers = environment.system.start_threads(self.config.background_threads)
        # A thread may hang in a system call: what waits for the stop must be able to give up.
        closing.note(Step.THREADS, lambda: asyncio.to_thread(workers.shutdown))
        self.config = find_own_directory(self.config)
        admin_doors = self._open_admin()
        way_in, site = await self._take_place()
        self.config = site.config
        cluster = open_cluster(site, way_in, environment, workers, self._give_up, closing)
        closing.note(Step.DIRECTORY, lambda: _in_thread(workers, partial(close_unchanged, site.directory)))
        self._stage = Placed(site, cluster)
        replication = self._new_replication(site, cluster)
        table = PartitionTable(
            config=site.config,
            directory=site.directory,
            metrics=self.metrics,
            workers=workers,
            replication=replication,
            clock_ms=environment.system.monotonic_ms,
        )
        services = build_services(site, cluster, table, self.metrics, environment.system)
        dispatcher = open_dispatcher(services, closing)
        door = KafkaDoor(dispatcher)
        alone = await join_quorum(site, cluster, closing)
        if not alone:
            # The quorum needs this node before clients can have it.
            await site.doors.serve(door.dispatch)
        statistics = NodeStatistics(self.metrics, table, cluster.controller.metadata, environment.system)
        lifecycle = new_lifecycle(site, cluster, statistics.collect, self._give_up, environment.system)
        image = await register(site, cluster, lifecycle, closing, alone=alone)
        await table.load(image)
        self._become_loaded(Loaded(site, cluster, table), workers)
        _follow_metadata(cluster, table, services)
        self._start_maintenance(site, table, workers)
        replication.start()
        services.groups.start()
        services.transactions.start()
        offer_samples(self.metrics, services, cluster.controller, site.doors.shared.budget, environment.system.disk)
        for admin in admin_doors:
            admin.measure_delay()
        dispatcher.open()
        if alone:
            await site.doors.serve(door.dispatch)
        await site.doors.serve_gateways(dispatcher)
        await begin_work(cluster, lifecycle, closing)
        self._is_ready = True
        for admin in admin_doors:
            await admin.opened()

    def _open_admin(self) -> list[AdminDoor]:
        """One if the settings name an address; only then it is imported."""
        if not self.config.admin_listen:
            return []
        from tidelog.node.admin_door import AdminDoor

        door = AdminDoor(self, self.config.admin_listen)
        self._closing.note(Step.ADMIN, door.close)
        return [door]

    async def _take_place(self) -> tuple[WayIn, Site]:
        """A node that asks to be let in has to say where it listens, and learns its number before it opens its data
        directory. Every other node takes its directory first: an address that is taken leaves no doubt whose it is."""
        environment, closing = self._environment, self._closing
        way_in, contacts = find_way_in(self.config)
        if contacts:
            doors = await bind_doors(way_in.config, self.metrics, environment, closing)
            way_in = await ask_to_be_let_in(way_in, contacts, doors, environment)
            directory = open_directory(way_in, environment.system, closing)
        else:
            directory = open_directory(way_in, environment.system, closing)
            doors = await bind_doors(way_in.config, self.metrics, environment, closing)
        return way_in, Site(way_in.config, directory, doors)

    def _new_replication(self, site: Site, cluster: Cluster) -> Replication:
        node_id, service = site.config.node_id, cluster.service

        def broker_epoch() -> int:
            return service.broker_epoch

        def alter(changes: Sequence[IsrChange]) -> Awaitable[list[IsrOutcome]]:
            return alter_partitions(service, cluster.channel, node_id, broker_epoch(), changes)

        identity = FetcherIdentity(node_id, broker_epoch, site.directory.cluster_id)
        clock_ms = self._environment.system.monotonic_ms
        replication = Replication(site.config, cluster.peers.pool, identity, alter, clock_ms)
        self._closing.note(Step.REPLICATION, replication.stop)
        return replication

    def _become_loaded(self, loaded: Loaded, workers: Executor) -> None:
        """All logs are open: from now on a stop can leave them in good order."""
        site, cluster, table = loaded.site, loaded.cluster, loaded.table

        def close() -> None:
            site.directory.close(broker_epoch=cluster.service.broker_epoch, high_watermarks=table.high_watermarks())

        self._closing.note(Step.DIRECTORY, lambda: _in_thread(workers, close))
        self._stage = loaded

    def _start_maintenance(self, site: Site, table: PartitionTable, workers: Executor) -> None:
        now_ms = self._environment.system.wall_clock_ms
        maintenance = Maintenance(site.config, table, site.directory, self.metrics, workers, now_ms)
        self._closing.note(Step.MAINTENANCE, maintenance.stop)
        maintenance.start()

    def _give_up(self, reason: str) -> None:
        """The cluster goes on without this node."""
        if self.given_up is None:
            logger.error("this node stops", reason=reason)
            self.given_up = reason
            self.stopped_by_cluster.set()

    # -- what the admin port asks ------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        return self._is_ready

    def health(self) -> Mapping[str, object]:
        """Only facts: that it can be asked is what makes a node alive. A partition that is offline is shown, and is no
        reason to end the node for all the others."""
        offline = self._stage.table.offline_count if isinstance(self._stage, Loaded) else 0
        return {"partitions": self.partition_count, "offline_partitions": offline}

    async def create_topic(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> None:
        """Makes a topic, ready to write to; BrokerError as a client would be answered."""
        [outcome] = await self._placed.cluster.service.create_topics(
            [NewTopic(name, partition_count=partitions, configs=tuple(configs.items()))]
        )
        if outcome.error is not None:
            raise outcome.error

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Answers what is being answered, then closes every log in good order; safe at any point of the start."""
        self._is_ready = False
        await self._closing.close()


def _follow_metadata(cluster: Cluster, table: PartitionTable, services: Services) -> None:
    """In the order in which they need one another: partitions first, then what lives on them."""
    metadata = cluster.controller.metadata
    metadata.prepare_with(table.prepare)
    metadata.subscribe(table.apply)
    services.groups.metadata_changed(metadata.image, MetadataDelta(metadata.image))
    services.transactions.metadata_changed(metadata.image, MetadataDelta(metadata.image))
    cluster.session_keys.metadata_changed(metadata.image, MetadataDelta(metadata.image))
    metadata.subscribe(services.groups.metadata_changed)
    metadata.subscribe(services.transactions.metadata_changed)
    metadata.subscribe(cluster.session_keys.metadata_changed)
    cluster.controller.publish()


async def _in_thread(workers: Executor, close: Callable[[], None]) -> None:
    await asyncio.get_running_loop().run_in_executor(workers, close)
