"""Replication of a node's partitions: fetches those it follows, watches the followers of those it leads. One per node.

The partition table reports every change of a role, and replication acts on the network; `partitions/core` decides what
to do. On a node without others it has nothing to do and costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.config.broker import BrokerConfig
from tidelog.net.client.pool import RpcPool
from tidelog.partitions.core.follower import FollowerState
from tidelog.partitions.core.leader import LeaderState
from tidelog.partitions.partition import Partition
from tidelog.partitions.replication.fetcher import FetcherIdentity, LeaderFetcher
from tidelog.partitions.replication.proposals import AlterPartitions, InSyncProposals
from tidelog.runtime.clock import monotonic_ms
from tidelog.runtime.pauses import with_pauses
from tidelog.runtime.tasks import BackgroundTasks

PARTITIONS_PER_TURN = 200
"""How many partitions the watch looks at before it lets others run."""


class Replication:
    """Roles may change before `start`; other nodes are asked after it."""

    def __init__(
        self,
        config: BrokerConfig,
        pool: RpcPool,
        identity: FetcherIdentity,
        alter_partitions: AlterPartitions,
        clock_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        """`clock_ms` never goes back."""
        self._config = config
        self._pool = pool
        self._identity = identity
        self._clock_ms = clock_ms
        self._proposals = InSyncProposals(alter_partitions, identity.broker_epoch)
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._fetcher_of: dict[Partition, LeaderFetcher] = {}
        self._led: dict[Partition, None] = {}
        """Partitions this node leads that may have followers, in the order in which it became their leader, so that a
        simulation goes through them in the same order each time."""
        self._tasks = BackgroundTasks()
        self._is_started = False

    def start(self) -> None:
        self._is_started = True
        self._tasks.start(self._watch_followers(), "watch of followers")
        for fetcher in self._fetchers.values():
            fetcher.start()

    async def stop(self) -> None:
        self._is_started = False
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        self._fetcher_of.clear()
        await self._proposals.stop()
        await asyncio.gather(self._tasks.close(), *(fetcher.stop() for fetcher in fetchers))

    # -- what the partition table says ---------------------------------------------------------------------------------

    def role_changed(self, partition: Partition) -> None:
        self.partition_removed(partition)
        role = partition.role
        if not isinstance(role, FollowerState):
            self._led[partition] = None
        elif role.leader_id >= 0:
            fetcher = self._fetcher(role.leader_id)
            fetcher.add(partition, role)
            self._fetcher_of[partition] = fetcher

    def partition_removed(self, partition: Partition) -> None:
        self._led.pop(partition, None)
        fetcher = self._fetcher_of.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def _fetcher(self, leader_id: int) -> LeaderFetcher:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            client = self._pool.client(leader_id, "fetch")
            fetcher = self._fetchers[leader_id] = LeaderFetcher(
                leader_id, client, self._identity, self._config, self._clock_ms
            )
            if self._is_started:
                fetcher.start()
        return fetcher

    # -- what partitions ask for ---------------------------------------------------------------------------------------

    def in_sync_proposed(self, partition: Partition, leader: LeaderState, in_sync: frozenset[int]) -> None:
        self._proposals.add(partition, leader, in_sync)

    def follower_synced(self, partition: Partition) -> None:
        fetcher = self._fetcher_of.get(partition)
        if fetcher is not None:
            fetcher.wake()

    async def _watch_followers(self) -> None:
        """Looks twice per lag time for replicas that have fallen behind."""
        interval_s = max(self._config.replica_lag_time_max_ms / 2000, 0.005)
        while True:
            await asyncio.sleep(interval_s)
            async for partition in with_pauses(list(self._led), PARTITIONS_PER_TURN):
                partition.recount(self._clock_ms())
