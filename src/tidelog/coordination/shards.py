"""The shards of a coordinator: one hosted core per partition of its internal topic that this node leads.

A shard is loaded when the node starts or comes to lead its partition. Until it is, everything it is asked answers
COORDINATOR_LOAD_IN_PROGRESS, and what lives on partitions led elsewhere NOT_COORDINATOR.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from tidelog.coordination.core import CoordinatorCore
from tidelog.coordination.host import CoreHost, HostState
from tidelog.coordination.log import CoordinatorLog
from tidelog.coordination.partitioning import coordinator_partition
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.metadata.delta import MetadataDelta

logger = get_logger("tidelog.coordination")

C = TypeVar("C", bound=CoordinatorCore)
OpenLog = Callable[[int], CoordinatorLog | None]
"""The log of a partition of the internal topic, or None when this node does not lead it."""


class Shards(Generic[C]):
    def __init__(
        self,
        topic: str,
        new_core: Callable[[], C],
        *,
        open_log: OpenLog,
        count_partitions: Callable[[], int],
        create_topic: Callable[[], Awaitable[object]],
        on_loaded: Callable[[int, CoreHost[C]], None] = lambda _partition, _shard: None,
        commit_timeout_ms: int = 5000,
    ) -> None:
        """`count_partitions` gives 0 while the topic does not exist; `create_topic` brings it about."""
        self.topic = topic
        self._new_core = new_core
        self._open_log = open_log
        self._count_partitions = count_partitions
        self._create_topic = create_topic
        self._on_loaded = on_loaded
        self._commit_timeout_ms = commit_timeout_ms
        self._shards: dict[int, CoreHost[C]] = {}
        self._loading: set[asyncio.Task[None]] = set()
        self._creating: asyncio.Task[None] | None = None

    def active(self) -> Iterator[tuple[int, CoreHost[C]]]:
        """Partition and shard of everything that can be asked now; safe against changes while iterating."""
        for partition, shard in list(self._shards.items()):
            if shard.state is HostState.ACTIVE:
                yield partition, shard

    @property
    def is_loading(self) -> bool:
        return any(shard.state is HostState.LOADING for shard in self._shards.values())

    async def loaded(self) -> None:
        """Returns when no shard is loading any more."""
        while self._loading:
            await asyncio.wait(self._loading)

    async def stop(self) -> None:
        for shard in self._shards.values():
            shard.unload()
        self._shards.clear()
        tasks = [*self._loading, *([self._creating] if self._creating is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def refresh(self) -> None:
        """The partitions this node leads may have changed: take on those that came, let go of those that went."""
        count = self._count_partitions()
        for partition in [p for p in self._shards if p >= count or self._open_log(p) is None]:
            self._shards.pop(partition).unload()
        for partition in range(count):
            shard = self._shards.get(partition)
            if shard is None or shard.state is HostState.CLOSED:
                self._take_on(partition)

    def metadata_changed(self, delta: MetadataDelta) -> None:
        if self.topic in delta.partitions_changed or any(
            topic.name == self.topic for topic in (*delta.topics_created, *delta.topics_deleted)
        ):
            self.refresh()

    async def partition_of(self, key: str) -> int:
        """The partition that holds `key`; creates the topic for the first key ever."""
        count = self._count_partitions()
        if count == 0:
            if self._creating is None or self._creating.done():
                self._creating = asyncio.ensure_future(self._create())
            await asyncio.shield(self._creating)
            count = self._count_partitions()
            if count == 0:
                raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return coordinator_partition(key, count)

    async def _create(self) -> None:
        await self._create_topic()
        self.refresh()

    def find(self, key: str) -> tuple[int, CoreHost[C]]:
        """Partition and shard of `key`; NOT_COORDINATOR when it is not here."""
        count = self._count_partitions()
        if count == 0:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        partition = coordinator_partition(key, count)
        return partition, self.at(partition)

    def at(self, partition: int) -> CoreHost[C]:
        shard = self._shards.get(partition) or self._take_on(partition)
        if shard is None:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        return shard

    def _take_on(self, partition: int) -> CoreHost[C] | None:
        log = self._open_log(partition)
        if log is None:
            return None
        name = f"{self.topic}-{partition}"
        shard = CoreHost(self._new_core(), log, name=name, commit_timeout_ms=self._commit_timeout_ms)
        self._shards[partition] = shard
        if log.is_empty:
            shard.activate()
        else:
            task = asyncio.ensure_future(self._load(partition, shard, name))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)
        return shard

    async def _load(self, partition: int, shard: CoreHost[C], name: str) -> None:
        try:
            replayed = await shard.load()
        except Exception:
            # What cannot be read must not be served as if it were empty.
            logger.exception("coordinator not loaded", partition=name)
            shard.unload()
            return
        logger.info("coordinator loaded", partition=name, records=replayed)
        if shard.state is HostState.ACTIVE:
            self._on_loaded(partition, shard)
