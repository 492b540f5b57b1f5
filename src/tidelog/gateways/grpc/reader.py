"""Records of several partitions as they come, for streams: each partition is read by a task, and all of them fill one
queue of a fixed length. A client that does not read therefore stops the reading, and nothing is kept for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.gateways.access import EARLIEST, LATEST, READ_COMMITTED
from tidelog.gateways.grpc.reaching import at_leader
from tidelog.gateways.grpc.records import FetchedRecords, fetch
from tidelog.gateways.grpc.status import invalid
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.runtime.tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.gateways.access import LogAccess
    from tidelog.records.record import Record

WAIT_MS: Final = 5_000
"""How long one fetch waits for records."""
READ_BYTES: Final = 1024 * 1024
"""What all partitions of a stream may read at a time together."""
READ_BYTES_MIN: Final = 16 * 1024


class Chunk(NamedTuple):
    """Records of one partition that follow one another."""

    place: TopicPartition
    records: list[Record]
    next_offset: int
    high_watermark: int
    log_start_offset: int


class Reader:
    """Closed by whoever has started it."""

    def __init__(
        self, access: LogAccess, *, records_max: int, chunk_records_max: int, isolation: int = READ_COMMITTED
    ) -> None:
        self._access = access
        self._isolation = isolation
        self._records_max = records_max
        """Read and not handed out."""
        self._chunk_records_max = min(chunk_records_max, records_max)
        self._bytes_max = READ_BYTES
        self._chunks: deque[Chunk] = deque()
        self._waiting_records = 0
        self._changed = asyncio.Condition()
        self._fault: BaseException | None = None
        self._tasks = BackgroundTasks()

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        self._bytes_max = max(READ_BYTES_MIN, READ_BYTES // max(1, len(positions)))
        for place, offset in positions.items():
            self._tasks.start(self._read(place, offset), "read a partition", is_awaited=True)

    async def next(self) -> Chunk:
        """Raises what has ended the reading of a partition."""
        async with self._changed:
            while not self._chunks:
                if self._fault is not None:
                    raise self._fault
                await self._changed.wait()
            chunk = self._chunks.popleft()
            self._waiting_records -= len(chunk.records)
            self._changed.notify_all()
            return chunk

    async def close(self) -> None:
        await self._tasks.close()

    async def _read(self, place: TopicPartition, offset: int) -> None:
        try:
            while True:
                offset = await self._read_once(place, offset)
        except Exception as fault:
            async with self._changed:
                self._fault = self._fault or fault
                self._changed.notify_all()

    async def _read_once(self, place: TopicPartition, offset: int) -> int:
        try:
            fetched = await fetch(
                self._access,
                place,
                offset,
                max_bytes=self._bytes_max,
                isolation=self._isolation,
                wait_ms=WAIT_MS,
            )
        except BrokerError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            return await self._after_retention(place, offset, error)
        found = FetchedRecords(fetched, offset)
        chunk: list[Record] = []
        for record in found:
            chunk.append(record)
            if len(chunk) == self._chunk_records_max:
                await self._put(place, chunk, found)
                chunk = []
        if chunk:
            await self._put(place, chunk, found)
        return found.next_offset

    async def _after_retention(self, place: TopicPartition, offset: int, error: BrokerError) -> int:
        """Where to go on when the log now begins behind `offset`. An offset behind its end is a mistake."""
        earliest = await start_offset(self._access, place, EARLIEST)
        if offset >= earliest:
            raise error
        return earliest

    async def _put(self, place: TopicPartition, records: list[Record], found: FetchedRecords) -> None:
        fetched = found.fetched
        chunk = Chunk(place, records, found.next_offset, fetched.high_watermark, fetched.log_start_offset)
        async with self._changed:
            while self._waiting_records + len(records) > self._records_max:
                await self._changed.wait()
            self._waiting_records += len(records)
            self._chunks.append(chunk)
            self._changed.notify_all()


async def start_offset(access: LogAccess, place: TopicPartition, offset: int) -> int:
    """The offset itself, or where EARLIEST or LATEST is now."""
    if offset >= 0:
        return offset
    if offset not in (EARLIEST, LATEST):
        raise invalid(f"An offset is -1 (latest), -2 (earliest) or not negative, not {offset}.")
    found = await at_leader(access, lambda at: access.list_offset(place.topic, place.partition, offset, at=at))
    return found.offset
