"""The group coordinator of this node: finds the shard of a group, hosts it, and puts requests to it.

One shard per partition of `__consumer_offsets` that this node leads. A shard is loaded when the node starts or comes to
lead its partition; until then its groups answer COORDINATOR_LOAD_IN_PROGRESS, and groups of partitions led elsewhere
NOT_COORDINATOR. Everything raises BrokerError; the handlers put it where their response has room for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.coordination.host import CoreHost, HostState
from tidelog.coordination.log import Marker
from tidelog.coordination.partitioning import OFFSETS_TOPIC
from tidelog.coordination.shards import OpenLog, Shards
from tidelog.groups.core.consumer.messages import ConsumerHeartbeat, DescribedConsumerGroup, HeartbeatReply
from tidelog.groups.core.messages import (
    Commit,
    DeleteOffsets,
    DescribedGroup,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    ListedGroup,
    Sync,
    Synced,
    TransactionalCommit,
)
from tidelog.groups.core.offsets import FetchedTopic
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.shard import GroupShard
from tidelog.metadata.features import GROUP_VERSION
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.runtime.pauses import with_pauses
from tidelog.runtime.system import SYSTEM
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.metrics import GroupSample

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.metadata.delta import MetadataDelta
    from tidelog.metadata.image import MetadataImage

Shard = CoreHost[GroupShard]


class GroupCoordinator:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        image: MetadataImage,
        open_log: OpenLog,
        create_topic: Callable[[], Awaitable[object]],
        random_bytes: Callable[[int], bytes] = SYSTEM.random_bytes,
    ) -> None:
        self.random_bytes = random_bytes
        """Makes the ids of new members."""
        self.settings = GroupSettings.from_config(config)
        self._shards: Shards[GroupShard] = Shards(
            OFFSETS_TOPIC,
            config.node_id,
            self._new_core,
            image=image,
            open_log=open_log,
            create_topic=create_topic,
            commit_timeout_ms=config.offsets_commit_timeout_ms,
        )
        self._serves_consumer_groups = self._may_serve_consumer_groups(image)
        self._tasks = BackgroundTasks()

    def _new_core(self) -> GroupShard:
        core = GroupShard(self.settings)
        core.consumers.image = self._shards.image
        return core

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to load every shard this node leads; returns at once."""
        self._shards.start()

    async def stop(self) -> None:
        await self._shards.stop()
        await self._tasks.close()

    async def loaded(self) -> None:
        """Returns when no shard is loading any more."""
        await self._shards.loaded()

    def metadata_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Called after the partitions have applied the same image."""
        self._serves_consumer_groups = self._may_serve_consumer_groups(image)
        changed = {topic.name for topic in (*delta.topics.created.values(), *delta.topics.deleted)}
        changed.update(delta.topics.partitions_changed)
        for core in self._shards.cores():
            core.consumers.change_metadata(image, changed)
        self._shards.metadata_changed(image, delta)
        deleted = {topic.name for topic in delta.topics.deleted} - {OFFSETS_TOPIC}
        if deleted:
            self._tasks.start(self.topics_deleted(deleted), "removal of offsets of deleted topics")

    async def topics_deleted(self, topics: Collection[str]) -> None:
        """Deletes the offsets of deleted topics; expiry deletes later what cannot be written now."""
        for _, shard in self._shards.active():
            rest: Sequence[str] = shard.core.offsets.group_ids()
            with suppress(BrokerError):
                while rest:
                    rest = await shard.execute(shard.core.decide_topics_deleted, (topics, rest))
                    # A loop that never waits for a commit would keep other work on the event loop waiting.
                    await asyncio.sleep(0)

    async def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic that holds the group; creates the topic for the first group ever."""
        return await self._shards.partition_of(group_id)

    def shard_of(self, group_id: str) -> Shard:
        return self._shards.find(group_id)[1]

    # -- membership --------------------------------------------------------------------------------------------------

    def join(self, request: Join) -> tuple[Joined, None] | tuple[None, asyncio.Future[Joined]]:
        """The response, or a future that has it when the rebalance is complete."""
        _require_group_id(request.group_id)
        if (
            not self.settings.min_session_timeout_ms
            <= request.session_timeout_ms
            <= self.settings.max_session_timeout_ms
        ):
            raise BrokerError(ErrorCode.INVALID_SESSION_TIMEOUT)
        shard = self.shard_of(request.group_id)
        return shard.submit_or_park(shard.core.decide_join, request)

    def sync(self, request: Sync) -> tuple[Synced, None] | tuple[None, asyncio.Future[Synced]]:
        """The response, or a future that has it when the leader has synced."""
        _require_group_id(request.group_id)
        shard = self.shard_of(request.group_id)
        return shard.submit_or_park(shard.core.decide_sync, request)

    def heartbeat(self, request: Heartbeat) -> tuple[ErrorCode, Awaitable[None] | None]:
        """The answer, and what to wait for before giving it; None for nothing."""
        _require_group_id(request.group_id)
        shard = self.shard_of(request.group_id)
        if shard.state is HostState.LOADING:
            # Whether the member exists is not known yet; an error would make it rejoin without need.
            return ErrorCode.NONE, None
        now = shard.begin()
        return shard.carry_out(shard.core.decide_heartbeat(request, now), now)

    def consumer_heartbeat(self, request: ConsumerHeartbeat) -> tuple[HeartbeatReply, Awaitable[None] | None]:
        """The answer, and what to wait for before giving it; None for nothing."""
        self._require_consumer_groups()
        shard = self.shard_of(request.group_id)
        now = shard.begin()
        return shard.carry_out(shard.core.decide_consumer_heartbeat(request, now), now)

    def _may_serve_consumer_groups(self, image: MetadataImage) -> bool:
        return self.settings.serves_consumer_groups and image.features.get(GROUP_VERSION, 0) >= 1

    def _require_consumer_groups(self) -> None:
        if not self._serves_consumer_groups:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is not enabled.")

    async def leave(self, request: Leave) -> Left:
        _require_group_id(request.group_id)
        shard = self.shard_of(request.group_id)
        return await shard.execute(shard.core.decide_leave, request)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def commit_offsets(self, request: Commit) -> tuple[Sequence[ErrorCode], Awaitable[None] | None]:
        """One error code per offset, and what to wait for before the response; None for nothing.

        The empty group id is a group like any other here: old clients commit to it.
        """
        shard = self.shard_of(request.group_id)
        now = shard.begin()
        return shard.carry_out(shard.core.decide_commit(request, now), now)

    def commit_transactional(self, request: TransactionalCommit) -> tuple[Sequence[ErrorCode], Awaitable[None] | None]:
        """The same for offsets that count when the producer's transaction commits."""
        _require_group_id(request.commit.group_id)
        shard = self.shard_of(request.commit.group_id)
        return shard.submit(shard.core.decide_transactional_commit, request)

    def end_transaction(self, partition: int, marker: Marker) -> Awaitable[None] | None:
        """Writes the end of a producer's transaction to a partition of the offsets topic and settles its offsets."""
        return self._shards.at(partition).end_transaction(marker)

    def fetch_offsets(self, request: FetchOffsets) -> tuple[list[FetchedTopic], Awaitable[None] | None]:
        shard = self.shard_of(request.group_id)
        return shard.submit(shard.core.fetch_offsets, request)

    async def delete_offsets(self, request: DeleteOffsets) -> list[tuple[str, list[tuple[int, ErrorCode]]]]:
        _require_group_id(request.group_id)
        shard = self.shard_of(request.group_id)
        return await shard.execute(shard.core.decide_delete_offsets, request)

    # -- administration ----------------------------------------------------------------------------------------------

    async def list_groups(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        if self._shards.is_loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        listed: list[ListedGroup] = []
        for _, shard in self._shards.active():
            groups = await shard.execute(shard.core.list_groups, (states, types))
            listed += groups
        return listed

    async def describe_groups(self, group_ids: Sequence[str]) -> list[DescribedGroup]:
        described: list[DescribedGroup] = []
        async for group_id in with_pauses(dict.fromkeys(group_ids)):
            try:
                shard = self.shard_of(group_id)
                groups = await shard.execute(shard.core.describe_groups, (group_id,))
                described += groups
            except BrokerError as error:
                described.append(DescribedGroup(group_id, "", error.code, error.message))
        return described

    async def describe_consumer_groups(self, group_ids: Sequence[str]) -> list[DescribedConsumerGroup]:
        described: list[DescribedConsumerGroup] = []
        async for group_id in with_pauses(dict.fromkeys(group_ids)):
            try:
                self._require_consumer_groups()
                _require_group_id(group_id)
                shard = self.shard_of(group_id)
                groups = await shard.execute(shard.core.describe_consumer_groups, (group_id,))
                described += groups
            except BrokerError as error:
                described.append(DescribedConsumerGroup(group_id, error=error.code, error_message=error.message))
        return described

    async def delete_groups(self, group_ids: Sequence[str]) -> list[tuple[str, ErrorCode]]:
        results: list[tuple[str, ErrorCode]] = []
        async for group_id in with_pauses(dict.fromkeys(group_ids)):
            try:
                shard = self.shard_of(group_id)
                # All in one step: a member that joined or committed in between would lose a part of its offsets.
                while shard.perform(shard.core.decide_prepare_deletion, group_id):
                    pass
                deleted = await shard.execute(shard.core.decide_delete_groups, (group_id,))
                results += deleted
            except BrokerError as error:
                results.append((group_id, error.code))
        return results

    def sample_groups(self) -> Iterator[GroupSample]:
        """Every group of this node as it stands, for metrics."""
        for core in self._shards.cores():
            for group in core.groups.values():
                yield GroupSample(
                    group.group_id, group.state.value, group.generation, len(group.members), group.rebalances
                )
            for consumers in core.consumers.groups.values():
                yield GroupSample(
                    consumers.group_id,
                    consumers.state.value,
                    consumers.epoch,
                    len(consumers.members),
                    consumers.rebalances,
                )

    def committed_offsets(self) -> Iterator[tuple[str, str, int, int]]:
        """Group, topic, partition and offset of every committed offset."""
        for core in self._shards.cores():
            store = core.offsets
            for group_id in store.group_ids():
                for topic, by_partition in store.of_group(group_id).items():
                    for partition, committed in by_partition.items():
                        yield group_id, topic, partition, committed.offset


def new_member_suffix(random_bytes: Callable[[int], bytes]) -> str:
    """The part of a member id that no other member has: a random UUID, written without making an object of it."""
    digits = random_bytes(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _require_group_id(group_id: str) -> None:
    if not group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)
