"""Where the partitions of a consumer instance come from: from its group, or from its client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from tidelog.gateways.access import EARLIEST, LATEST
from tidelog.gateways.consuming import PartitionReader, Reading, Reset, find_offset
from tidelog.gateways.membership import GroupMember, Subscription
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.coordinator import GroupAccess
    from tidelog.gateways.http.proxy.consumers.settings import ConsumerSettings
    from tidelog.model.ids import TopicPartition

logger = get_logger("tidelog.http")


class Source(ABC):
    """The reader of a consumer, and what of it is not committed yet."""

    def __init__(self, access: LogAccess, settings: ConsumerSettings, *, skips_missing: bool) -> None:
        reading = Reading(reset=settings.reset, skips_missing=skips_missing)
        self.reader: Final = PartitionReader(access, reading)
        self.settings: Final = settings
        self._uncommitted: dict[TopicPartition, int] = {}

    @property
    @abstractmethod
    def partitions(self) -> Collection[TopicPartition]: ...

    @abstractmethod
    async def prepare(self) -> None:
        """Makes sure that it is known where to read. Raises BrokerError where that cannot be."""

    @abstractmethod
    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    async def commit_all(self) -> None:
        """Where it stands in every partition."""
        positions = dict(self.reader.positions)
        await self.commit(positions)
        self._forget(positions)

    def handed_out(self, partitions: Collection[TopicPartition]) -> None:
        """The client gets what was read of these."""
        positions = self.reader.positions
        self._uncommitted.update((each, positions[each]) for each in partitions if each in positions)

    def rewind(self, starts: Mapping[TopicPartition, int]) -> None:
        """What was read since is read again."""
        positions = self.reader.positions
        self.reader.assign({**positions, **{each: at for each, at in starts.items() if each in positions}})

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.reader.assign({**self.reader.positions, **offsets})
        self._uncommitted.update(offsets)

    async def maybe_commit(self, only: Collection[TopicPartition] | None = None) -> None:
        """What it has handed out, if it commits by itself. An error is logged: those records come again."""
        positions = {each: offset for each, offset in self._uncommitted.items() if only is None or each in only}
        if not positions or not self.settings.commits_by_itself:
            return
        try:
            await self.commit(positions)
        except BrokerError as error:
            logger.info_limited("a consumer could not commit", limit_by=("reason",), reason=error.message)
        else:
            self._forget(positions)

    def _forget(self, committed: Mapping[TopicPartition, int]) -> None:
        for each, offset in committed.items():
            if self._uncommitted.get(each) == offset:
                del self._uncommitted[each]

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """It has these no more."""
        for each in partitions:
            self._uncommitted.pop(each, None)

    async def close(self) -> None:
        await self.reader.close()


class SubscribedSource(Source):
    """A member of the group: partitions come and go."""

    def __init__(
        self, access: LogAccess, group_id: str, subscription: Subscription, settings: ConsumerSettings
    ) -> None:
        super().__init__(access, settings, skips_missing=True)
        self.subscription = subscription
        self._member = GroupMember(access, group_id, subscription, reset=settings.reset, owner=self)

    async def start(self) -> None:
        await self._member.start()

    @property
    def partitions(self) -> Collection[TopicPartition]:
        return self._member.positions.keys()

    def subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._member.subscribe(subscription)

    async def prepare(self) -> None:
        if self._member.error is not None:
            raise self._member.error

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        await self._member.commit(offsets)

    async def changed_since(self, count: int) -> None:
        await self._member.changed(count)

    @property
    def changes(self) -> int:
        return self._member.changes

    async def revoking(self, partitions: Collection[TopicPartition]) -> None:
        """The group gives them to another member, which goes on where this one has committed."""
        await self.maybe_commit(partitions)
        self._keep([each for each in self.reader.positions if each not in partitions])

    def changed(self) -> None:
        """Partitions that stay are read on where they were."""
        before = self.reader.positions
        self.reader.assign({each: before.get(each, start) for each, start in self._member.positions.items()})
        self.drop([each for each in before if each not in self._member.positions])

    def _keep(self, partitions: Collection[TopicPartition]) -> None:
        before = self.reader.positions
        self.reader.assign({each: before[each] for each in partitions})
        self.drop([each for each in before if each not in partitions])

    async def close(self) -> None:
        await self.maybe_commit()
        await self._member.close()
        await super().close()


class AssignedSource(Source):
    """Partitions that the client has chosen. The group only keeps its offsets."""

    def __init__(
        self,
        access: LogAccess,
        group: GroupAccess,
        partitions: Collection[TopicPartition],
        settings: ConsumerSettings,
    ) -> None:
        super().__init__(access, settings, skips_missing=False)
        self._access = access
        self._group = group
        self._partitions = tuple(dict.fromkeys(partitions))

    @property
    def partitions(self) -> Collection[TopicPartition]:
        return self._partitions

    async def prepare(self) -> None:
        """Begins where the group has committed, and else as the consumer's settings say."""
        unplaced = [each for each in self._partitions if each not in self.reader.positions]
        if not unplaced:
            return
        committed = await self._group.committed(unplaced)
        places: dict[TopicPartition, int] = {}
        for each in unplaced:
            if each in committed:
                places[each] = committed[each].offset
            elif self.settings.reset is Reset.NONE:
                raise BrokerError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"The group has committed no offset of {each}: set a position, or create the consumer with "
                    "auto.offset.reset.",
                )
            else:
                timestamp = EARLIEST if self.settings.reset is Reset.EARLIEST else LATEST
                places[each] = await find_offset(self._access, each, timestamp)
        self.reader.assign({**self.reader.positions, **places})

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        await self._group.commit(offsets)

    async def close(self) -> None:
        await self.maybe_commit()
        await super().close()
