"""Where a stream reads: partitions that its client has chosen, or those that a group assigns to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.gateways.consuming import PartitionReader, Reading
from tidelog.gateways.membership import GroupMember, Reset, Subscription
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.consuming import ReadPartition

logger = get_logger("tidelog.http")

COMMIT_SECONDS: Final = 1.0
"""How often the offsets of a group are committed while records are written."""


class Source(Protocol):
    async def read(self, wait_ms: int) -> list[ReadPartition]:
        """What there is, after `wait_ms` perhaps nothing. Raises BrokerError where there will be no more."""

    def has(self, partition: TopicPartition) -> bool:
        """Whether its records are still this stream's to write."""

    def taken(self, partition: TopicPartition, next_offset: int) -> None:
        """The client has taken the records before this offset."""

    async def close(self) -> None: ...


class ChosenPartitions:
    """One partition, or all of a topic: also those that are added later."""

    def __init__(
        self, access: LogAccess, topic: str, reading: Reading, positions: Mapping[int, int], *, follows_topic: bool
    ) -> None:
        self._access = access
        self._topic = topic
        self._follows_topic = follows_topic
        self._count = len(positions)
        self._reader = PartitionReader(access, reading)
        self._reader.assign({TopicPartition(topic, index): offset for index, offset in positions.items()})

    async def read(self, wait_ms: int) -> list[ReadPartition]:
        found = self._access.image.topics.get(self._topic)
        if found is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {self._topic} was deleted.")
        if self._follows_topic and len(found.partitions) > self._count:
            added = range(self._count, len(found.partitions))
            self._count = len(found.partitions)
            self._reader.assign(
                {**self._reader.positions, **{TopicPartition(self._topic, index): 0 for index in added}}
            )
        return await self._reader.read(wait_ms)

    def has(self, partition: TopicPartition) -> bool:
        return True

    def taken(self, partition: TopicPartition, next_offset: int) -> None:
        self._reader.moved(partition, next_offset)

    async def close(self) -> None:
        await self._reader.close()


class GroupPartitions:
    """The partitions of a member of a group. What the client has taken is committed about once a second, and before a
    partition goes to another member; after a connection that has ended, the last records come again."""

    def __init__(self, access: LogAccess, topic: str, group_id: str, reading: Reading) -> None:
        self._reader = PartitionReader(access, reading)
        subscription = Subscription((topic,))
        self._member: Final = GroupMember(access, group_id, subscription, reset=reading.reset, owner=self)
        self._seen_changes = 0
        self._uncommitted: dict[TopicPartition, int] = {}
        self._commit_at_s = 0.0

    async def start(self) -> None:
        """Raises BrokerError where the group does not take the stream."""
        await self._member.start()

    async def read(self, wait_ms: int) -> list[ReadPartition]:
        member = self._member
        if member.error is not None:
            raise member.error
        if member.changes != self._seen_changes:
            self._seen_changes = member.changes
            self._assign()
        if self._uncommitted:
            left_s = self._commit_at_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                await self._commit(list(self._uncommitted))
            else:
                wait_ms = min(wait_ms, int(left_s * 1000) + 1)
        return await self._reader.read(wait_ms, is_interruptible=True)

    def _assign(self) -> None:
        """The member knows where a partition begins that has come, the reader how far it is with one that stayed."""
        known = self._reader.positions
        came = {each: offset for each, offset in self._member.positions.items() if each not in known}
        stayed = {each: offset for each, offset in known.items() if each in self._member.positions}
        self._reader.assign({**stayed, **came})
        # A member that fails before the first record must not make the next one begin elsewhere.
        for each, offset in came.items():
            self._note(each, offset)

    def _note(self, partition: TopicPartition, offset: int) -> None:
        if not self._uncommitted:
            self._commit_at_s = asyncio.get_running_loop().time() + COMMIT_SECONDS
        self._uncommitted[partition] = offset

    async def _commit(self, partitions: Collection[TopicPartition]) -> None:
        offsets = {each: self._uncommitted.pop(each) for each in partitions if each in self._uncommitted}
        mine = {each: offset for each, offset in offsets.items() if each in self._member.positions}
        try:
            await self._member.commit(mine)
        except BrokerError as error:
            logger.info_limited("a stream could not commit", limit_by=("reason",), reason=error.message)
            for each, offset in mine.items():
                if each not in self._uncommitted:
                    self._note(each, offset)

    def has(self, partition: TopicPartition) -> bool:
        return partition in self._reader.positions and partition in self._member.positions

    def taken(self, partition: TopicPartition, next_offset: int) -> None:
        if self.has(partition):
            self._reader.moved(partition, next_offset)
            self._note(partition, next_offset)

    async def close(self) -> None:
        await self._reader.close()
        await self._member.close()

    # -- the owner of the member ---------------------------------------------------------------------------------------

    async def revoking(self, partitions: Collection[TopicPartition]) -> None:
        self._reader.assign({each: at for each, at in self._reader.positions.items() if each not in partitions})
        await self._commit(partitions)

    def changed(self) -> None:
        self._reader.interrupt()


async def new_group_source(access: LogAccess, topic: str, group_id: str, reading: Reading) -> GroupPartitions:
    source = GroupPartitions(access, topic, group_id, reading)
    try:
        await source.start()
    except BaseException:
        await source.close()
        raise
    return source


__all__ = ["ChosenPartitions", "GroupPartitions", "Reset", "Source", "new_group_source"]
