"""The shards of a coordinator: one hosted core per partition of its internal topic that this node leads.

The metadata names the leaders: a node that comes to lead a partition loads its shard by replay; one that no longer
does, or does so in a new term, drops it. Until a shard is loaded everything it is asked answers
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
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from tidelog.metadata.delta import MetadataDelta
    from tidelog.metadata.image import MetadataImage

logger = get_logger("tidelog.coordination")

C = TypeVar("C", bound=CoordinatorCore)
OpenLog = Callable[[int], CoordinatorLog | None]
"""The log of a partition of the internal topic; None while this node does not have it."""


class Shards(Generic[C]):
    def __init__(
        self,
        topic: str,
        node_id: int,
        new_core: Callable[[], C],
        *,
        image: MetadataImage,
        open_log: OpenLog,
        create_topic: Callable[[], Awaitable[object]],
        on_loaded: Callable[[int, CoreHost[C]], None] = lambda _partition, _shard: None,
        commit_timeout_ms: int = 5000,
    ) -> None:
        """`create_topic` asks for the topic; `metadata_changed` brings it."""
        self.topic = topic
        self.image = image
        self._node_id = node_id
        self._new_core = new_core
        self._open_log = open_log
        self._create_topic = create_topic
        self._on_loaded = on_loaded
        self.commit_timeout_ms = commit_timeout_ms
        self._topic_id: bytes | None = None
        self._partition_count = 0
        """0 while the topic does not exist."""
        self._shards: dict[int, CoreHost[C]] = {}
        self._leader_epochs: dict[int, int] = {}
        """The term of every shard: in another term another node may have written to its log."""
        self._tasks = BackgroundTasks()
        self._creating: asyncio.Task[None] | None = None

    def active(self) -> Iterator[tuple[int, CoreHost[C]]]:
        """Partition and shard of everything that can be asked now; safe against changes while iterating."""
        for partition, shard in list(self._shards.items()):
            if shard.state is HostState.ACTIVE:
                yield partition, shard

    def cores(self) -> list[C]:
        """Of all shards, those that are still loading among them."""
        return [shard.core for shard in self._shards.values() if shard.state is not HostState.CLOSED]

    @property
    def is_loading(self) -> bool:
        return any(shard.state is HostState.LOADING for shard in self._shards.values())

    async def loaded(self) -> None:
        """Returns when no shard is loading any more."""
        await self._tasks.finished()

    async def stop(self) -> None:
        for shard in self._shards.values():
            shard.unload()
        self._shards.clear()
        await self._tasks.close()

    def start(self) -> None:
        """Begins to load every shard that this node leads; returns at once."""
        self._follow_leaders()

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Called after the partitions have applied the same image."""
        self.image = image
        if self.topic in delta.topics.partitions_changed or any(
            topic.name == self.topic for topic in (*delta.topics.created.values(), *delta.topics.deleted)
        ):
            self._follow_leaders()

    def _follow_leaders(self) -> None:
        topic = self.image.topics.get(self.topic)
        states = {} if topic is None else topic.partitions
        is_another_topic = topic is None or topic.topic_id != self._topic_id
        for partition in list(self._shards):
            state = states.get(partition)
            if (
                is_another_topic
                or state is None
                or state.leader != self._node_id
                or state.leader_epoch != self._leader_epochs[partition]
            ):
                self._resign(partition)
        self._topic_id = None if topic is None else topic.topic_id
        self._partition_count = len(states)
        for partition in states:
            shard = self._shards.get(partition)
            if shard is None or shard.state is HostState.CLOSED:
                self._maybe_take_on(partition)

    def _resign(self, partition: int) -> None:
        del self._leader_epochs[partition]
        self._shards.pop(partition).unload()

    async def partition_of(self, key: str) -> int:
        """The partition that holds `key`; creates the topic for the first key ever."""
        if self._partition_count == 0:
            if self._creating is None or self._creating.done():
                self._creating = self._tasks.start(self._create(), "creation of the topic", is_awaited=True)
            await asyncio.shield(self._creating)
            if self._partition_count == 0:
                raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return coordinator_partition(key, self._partition_count)

    async def _create(self) -> None:
        await self._create_topic()
        self._follow_leaders()

    def find(self, key: str) -> tuple[int, CoreHost[C]]:
        """Partition and shard of `key`; NOT_COORDINATOR when it is not here."""
        if self._partition_count == 0:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        partition = coordinator_partition(key, self._partition_count)
        return partition, self.at(partition)

    def at(self, partition: int) -> CoreHost[C]:
        shard = self._shards.get(partition) or self._maybe_take_on(partition)
        if shard is None:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        return shard

    def _maybe_take_on(self, partition: int) -> CoreHost[C] | None:
        """The shard of a partition that this node leads, from now on; None for others."""
        topic = self.image.topics.get(self.topic)
        state = None if topic is None else topic.partitions.get(partition)
        if state is None or state.leader != self._node_id:
            return None
        log = self._open_log(partition)
        if log is None:
            return None
        name = f"{self.topic}-{partition}"
        shard = CoreHost(self._new_core(), log, name=name, commit_timeout_ms=self.commit_timeout_ms)
        self._shards[partition] = shard
        self._leader_epochs[partition] = state.leader_epoch
        if log.is_empty:
            shard.activate()
        else:
            self._tasks.start(self._load(partition, shard, name), "load of a coordinator")
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
