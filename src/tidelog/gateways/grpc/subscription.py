"""A stream of records to one client: of partitions that it names, or of those that a group gives it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.grpc.membership import Membership
from tidelog.gateways.grpc.reader import Reader, start_offset
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.consumer_protocol import Assignment
    from tidelog.gateways.grpc.reader import Chunk
    from tidelog.gateways.grpc.shared import Shared

    Deliver = Callable[[Chunk], Awaitable[None]]
    """Returns when the client's side has taken the records."""


class Subscription:
    """Ends only by an exception: its call is cancelled, something goes wrong, or the door closes.

    It runs in a task of the door, which ends those first when it closes: a member can still leave its group then.
    """

    def __init__(self, shared: Shared, access: LogAccess, deliver: Deliver, *, chunk_records_max: int) -> None:
        self._shared = shared
        self._access = access
        self._deliver = deliver
        self._chunk_records_max = chunk_records_max
        self._positions: dict[TopicPartition, int] = {}
        """Behind the last record that was delivered."""

    def _reader(self, isolation: int) -> Reader:
        return Reader(
            self._access,
            records_max=self._shared.max_in_flight,
            chunk_records_max=self._chunk_records_max,
            isolation=isolation,
        )

    async def run(self, starts: Mapping[TopicPartition, int], isolation: int) -> None:
        """Of partitions that the client names."""
        await self._as_task(self._follow(starts, isolation))

    async def run_as_member(self, group_id: str, topics: Sequence[str], start: int, isolation: int) -> None:
        """Of the partitions that the group gives this member, from the committed offsets on, or from `start`."""
        await self._as_task(self._live_as_member(group_id, topics, start, isolation))

    async def _as_task(self, work: Coroutine[Any, Any, None]) -> None:
        """A call that is cancelled cancels the task that it waits for."""
        task = self._shared.tasks.start(work, "subscription", is_awaited=True)
        try:
            await task
        except asyncio.CancelledError:
            calling = asyncio.current_task()
            if calling is None or calling.cancelling():
                raise
            raise BrokerError(ErrorCode.BROKER_NOT_AVAILABLE, "The node is stopping.") from None

    async def _follow(self, starts: Mapping[TopicPartition, int], isolation: int) -> None:
        positions = {place: await start_offset(self._access, place, offset) for place, offset in starts.items()}
        reader = self._reader(isolation)
        try:
            reader.start(positions)
            while True:
                await self._deliver(await reader.next())
        finally:
            await reader.close()

    async def _live_as_member(self, group_id: str, topics: Sequence[str], start: int, isolation: int) -> None:
        for topic in topics:
            await self._access.find_topic(topic)
        membership = Membership(self._shared, self._access, group_id, topics)
        try:
            generation = -1
            while True:
                assignment = await membership.join()
                # What was delivered in the generation before is known here; with one in between, another member may
                # have been at work.
                kept = self._positions if membership.generation == generation + 1 else {}
                generation = membership.generation
                self._positions = await self._find_positions(membership, assignment, kept, start)
                await self._read_until_rebalance(membership, isolation)
        finally:
            await membership.leave()

    async def _find_positions(
        self, membership: Membership, assignment: Assignment, kept: Mapping[TopicPartition, int], start: int
    ) -> dict[TopicPartition, int]:
        places = [TopicPartition(topic, index) for topic, indexes in assignment.items() for index in indexes]
        positions = {place: kept[place] for place in places if place in kept}
        added = [place for place in places if place not in positions]
        committed = await membership.group.committed(added) if added else {}
        for place in added:
            found = committed.get(place)
            positions[place] = await start_offset(self._access, place, start if found is None else found.offset)
        return positions

    async def _read_until_rebalance(self, membership: Membership, isolation: int) -> None:
        reader = self._reader(isolation)
        reader.start(self._positions)
        staying: Final = asyncio.ensure_future(membership.stay())
        reading: asyncio.Future[Chunk] | None = None
        try:
            while True:
                reading = asyncio.ensure_future(reader.next())
                await asyncio.wait((staying, reading), return_when=asyncio.FIRST_COMPLETED)
                if staying.done():
                    return staying.result()
                chunk = reading.result()
                await self._deliver(chunk)
                self._positions[chunk.place] = chunk.next_offset
        finally:
            for task in (staying, reading):
                if task is not None:
                    task.cancel()
            await asyncio.gather(*(task for task in (staying, reading) if task is not None), return_exceptions=True)
            await reader.close()
