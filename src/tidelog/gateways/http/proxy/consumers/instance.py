"""One consumer instance: what its client has asked it to read, and the records that it hands out.

Requests to one instance take turns, as calls of Kafka's consumer do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tidelog.gateways.consuming import find_offset
from tidelog.gateways.coordinator import GroupAccess
from tidelog.gateways.http.proxy.consumers.sources import AssignedSource, Source, SubscribedSource
from tidelog.gateways.http.proxy.errors import FORMAT_MISMATCH, ILLEGAL_STATE, INSTANCE_NOT_FOUND, ProxyError
from tidelog.gateways.http.proxy.formats import Format, encode_records, size_of
from tidelog.gateways.reading import read_records
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.consuming import PartitionReader, ReadPartition
    from tidelog.gateways.http.proxy.consumers.settings import ConsumerSettings
    from tidelog.gateways.membership import Subscription
    from tidelog.records.record import Record

COMMIT_SECONDS: Final = 5.0
"""How often a consumer commits that commits by itself, at most."""
ASSIGNMENT_SECONDS_MAX: Final = 5.0
"""How long a client that sets a position waits for its group to assign the first partitions."""


class ConsumerInstance:
    def __init__(self, access: LogAccess, group_id: str, name: str, settings: ConsumerSettings) -> None:
        self.name: Final = name
        self.settings: Final = settings
        self.principal: Final = access.caller.principal
        """Nobody else may use the instance."""
        self.group: Final = GroupAccess(access, group_id)
        self._access = access
        self._source: Source | None = None
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._committed_s = asyncio.get_running_loop().time()

    # -- what it reads -------------------------------------------------------------------------------------------------

    async def subscribe(self, subscription: Subscription) -> None:
        async with self._turn:
            self._check_open()
            source = self._source
            if isinstance(source, SubscribedSource):
                if (source.subscription.pattern is None) != (subscription.pattern is None):
                    raise _illegal("It is subscribed to topics or to a pattern, not to both: delete the subscription.")
                source.subscribe(subscription)
                return
            if source is not None:
                raise _illegal("It has partitions that its client has assigned: delete the subscription first.")
            source = SubscribedSource(self._access, self.group.group_id, subscription, self.settings)
            await source.start()
            self._source = source

    async def assign(self, partitions: Collection[TopicPartition]) -> None:
        async with self._turn:
            self._check_open()
            if isinstance(self._source, SubscribedSource):
                raise _illegal("It is subscribed, and its group assigns its partitions: delete the subscription first.")
            before, self._source = self._source, None
            if before is not None:
                await before.close()
            if partitions:
                self._source = AssignedSource(self._access, self.group, partitions, self.settings)

    async def unsubscribe(self) -> None:
        async with self._turn:
            self._check_open()
            await self._end_source()

    @property
    def topics(self) -> list[str]:
        """That it is subscribed to; of a pattern those that it has partitions of."""
        source = self._source
        if not isinstance(source, SubscribedSource):
            return []
        if source.subscription.pattern is None:
            return list(source.subscription.topics)
        return sorted({each.topic for each in source.partitions})

    @property
    def partitions(self) -> list[TopicPartition]:
        return [] if self._source is None else sorted(self._source.partitions)

    # -- positions and offsets -----------------------------------------------------------------------------------------

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        async with self._turn:
            (await self._source_with(offsets)).seek(offsets)

    async def seek_to(self, partitions: Collection[TopicPartition], timestamp: int) -> None:
        """To EARLIEST or LATEST."""
        async with self._turn:
            await self._source_with(partitions)
            offsets = {each: await find_offset(self._access, each, timestamp) for each in partitions}
            (await self._source_with(partitions)).seek(offsets)

    async def _source_with(self, partitions: Iterable[TopicPartition]) -> Source:
        """The source, if it has these partitions. A member that has none yet may be about to be assigned them."""
        self._check_open()
        source = self._source
        if isinstance(source, SubscribedSource):
            try:
                async with asyncio.timeout(ASSIGNMENT_SECONDS_MAX):
                    while not source.partitions:
                        await source.prepare()
                        await source.changed_since(source.changes)
            except TimeoutError:
                pass
        for each in partitions:
            if source is None or each not in source.partitions:
                raise _illegal(f"The consumer does not have {each}: it is not assigned to it now.")
        if source is None:
            raise _illegal("The consumer has no partitions: subscribe it to topics or assign it some.")
        return source

    async def commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """These offsets, or for None those of all that was handed out."""
        async with self._turn:
            self._check_open()
            source = self._source
            if offsets is None:
                if source is not None:
                    await source.commit_all()
            elif source is not None:
                await source.commit(offsets)
            else:
                await self.group.commit(offsets)

    # -- records -------------------------------------------------------------------------------------------------------

    async def read(self, form: Format | None, timeout_ms: int | None, bytes_max: int) -> tuple[Format, bytes]:
        """Records as a body. What is handed out is not handed out again, unless a client sets positions back."""
        if form is not None and form is not self.settings.form:
            raise ProxyError(
                FORMAT_MISMATCH,
                f"The consumer was created for {self.settings.form.name}: Accept {self.settings.form.media_type}.",
            )
        async with self._turn:
            self._check_open()
            if self._source is None:
                raise _illegal("The consumer has no partitions: subscribe it to topics or assign it some.")
            source = self._source
            if _now_s() - self._committed_s >= COMMIT_SECONDS:
                await source.maybe_commit()
                self._committed_s = _now_s()
            wait_ms = self.settings.timeout_ms if timeout_ms is None else timeout_ms
            return self.settings.form, await self._take(source, _now_s() + wait_ms / 1000, bytes_max)

    async def _take(self, source: Source, deadline_s: float, bytes_max: int) -> bytes:
        taken = _Taken(bytes_max)
        try:
            while True:
                await source.prepare()
                wait_ms = max(0, int((deadline_s - _now_s()) * 1000))
                for found in await source.reader.read(wait_ms, is_interruptible=True):
                    taken.add(found, source.reader)
                self._check_open()
                is_enough = bool(taken.records) and taken.size >= min(self.settings.min_bytes, bytes_max)
                if is_enough or taken.is_full or _now_s() >= deadline_s:
                    break
            # Meanwhile the group may have given a partition to another member, which reads those records.
            kept = [each for each in taken.records if TopicPartition(each[0], each[1]) in source.reader.positions]
            body = encode_records(self.settings.form, kept)
        except BaseException:
            # Nobody has got the records.
            source.rewind(taken.starts)
            raise
        source.handed_out(taken.starts)
        return body

    # -- end -----------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Leaves the group. A request that waits for records ends with an error."""
        self._is_closed = True
        if self._source is not None:
            self._source.reader.interrupt()
        async with self._turn:
            await self._end_source()

    async def _end_source(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            await source.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ProxyError(INSTANCE_NOT_FOUND, "The consumer was deleted meanwhile.")


class _Taken:
    """The records of one answer."""

    __slots__ = ("_bytes_max", "is_full", "records", "size", "starts")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.records: list[tuple[str, int, Record]] = []
        self.starts: dict[TopicPartition, int] = {}
        """Where the reader was in each partition that was read."""
        self.size = 0
        self.is_full = False

    def add(self, found: ReadPartition, reader: PartitionReader) -> None:
        """Those that still fit, the first of all in any case. The reader goes on behind them."""
        if self.is_full:
            return
        read = read_records(found.fetched, found.offset)
        topic, index = found.partition
        self.starts.setdefault(found.partition, found.offset)
        for record in read.records:
            size = size_of(record)
            if self.records and self.size + size > self._bytes_max:
                self.is_full = True
                reader.moved(found.partition, record.offset)
                return
            self.size += size
            self.records.append((topic, index, record))
        reader.moved(found.partition, read.next_offset)


def _illegal(message: str) -> ProxyError:
    return ProxyError(ILLEGAL_STATE, message)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
