"""Reading several partitions at once for a consumer: one waiting Fetch per node that has them, most often this one.

A partition is read from this node where it has a replica, else from its leader. While it has no leader it is passed
over and tried again; the others are read on. Positions move when the consumer says so, and only then.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.gateways.access import EARLIEST, LATEST, READ_UNCOMMITTED, Fetched, LeaderElsewhere, Read, Waiting
from tidelog.gateways.patience import LOOK_SECONDS_MAX, LOOK_SECONDS_MIN
from tidelog.metadata.image import NO_LEADER
from tidelog.model import limits
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.value import Value
from tidelog.runtime.tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.gateways.access import LogAccess
    from tidelog.model.ids import TopicPartition

PAUSE_SECONDS: Final = 0.1
"""Before a partition is tried again that could not be read."""
FIND_SECONDS_MAX: Final = 10.0
"""How long an offset is asked for while its partition has no leader."""

_PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""After these the partition is tried again, at its leader."""


class Reset(Enum):
    """Where to read when there is no offset to read from, or none that the log still has."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    """Nowhere: that is an error."""


class Reading(Value):
    """How a consumer reads."""

    isolation: int = READ_UNCOMMITTED
    max_bytes: int = limits.CONSUMER_FETCH_BYTES
    """About how much one read brings of all partitions together; one batch always fits."""
    reset: Reset = Reset.NONE
    skips_missing: bool = False
    """A partition that does not exist is passed over, for a member of a group: it will lose it."""


class ReadPartition(NamedTuple):
    """What was read of a partition, from `offset` on; `read_records` has the records in it."""

    partition: TopicPartition
    offset: int
    fetched: Fetched


class _Pause(NamedTuple):
    until_s: float
    length_s: float


class _Asked(NamedTuple):
    """A fetch that is under way, and what it asks for."""

    reads: list[tuple[TopicPartition, int]]
    task: asyncio.Task[list[Fetched | BrokerError]]


class PartitionReader:
    """For one consumer. All methods belong to the event loop, and one `read` is under way at a time."""

    def __init__(self, access: LogAccess, reading: Reading) -> None:
        self._access = access
        self._reading = reading
        self._positions: dict[TopicPartition, int] = {}
        """Where to read on. Their order is the order in which a fetch names them: who had records goes to the end."""
        self._pauses: dict[TopicPartition, _Pause] = {}
        """Of partitions that are not asked for now."""
        self._at_leader: set[TopicPartition] = set()
        """Partitions that the replica of this node could not serve."""
        self._asked: dict[int, _Asked] = {}
        """By node, where fetches wait at several nodes or may be interrupted."""
        self._interrupt: asyncio.Future[None] | None = None
        self._tasks = BackgroundTasks()

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        return self._positions

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """These partitions from these offsets, and no others. A read that waits goes on with them."""
        self._positions = dict(positions)
        self._pauses = {each: pause for each, pause in self._pauses.items() if each in positions}
        self._at_leader &= positions.keys()
        self._tasks.cancel()
        self._asked.clear()
        self.interrupt()

    def interrupt(self) -> None:
        """The read that is under way, if there is one, ends with what it has."""
        if self._interrupt is not None and not self._interrupt.done():
            self._interrupt.set_result(None)

    async def close(self) -> None:
        self._asked.clear()
        await self._tasks.close()

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read(self, wait_ms: int, *, is_interruptible: bool = False) -> list[ReadPartition]:
        """What there is, after `wait_ms` perhaps nothing. `moved` says how much of it need not be read again. Raises
        BrokerError for a partition that waiting does not help."""
        now_s = asyncio.get_running_loop().time
        deadline_s = now_s() + wait_ms / 1000
        is_alone = not is_interruptible
        while True:
            began_s = now_s()
            sources = self._sources(began_s)
            left_s = max(0.0, deadline_s - began_s)
            due_s = min(
                [pause.until_s - began_s for pause in self._pauses.values() if pause.until_s > began_s] or [left_s]
            )
            nodes = list(sources)
            if is_alone and nodes == [self._access.node_id] and not self._asked:
                [node_id] = nodes
                reads = sources[node_id]
                found = await self._take(node_id, reads, await self._fetch(node_id, reads, min(left_s, due_s)))
            else:
                self._ask(sources, left_s)
                is_over, found = await self._first_answers(min(left_s, due_s))
                if is_over:
                    return found
            if found or now_s() >= deadline_s:
                return found

    def moved(self, partition: TopicPartition, next_offset: int) -> None:
        """The records before `next_offset` were handed out. The partition goes behind the others."""
        if self._positions.pop(partition, None) is not None:
            self._positions[partition] = next_offset

    def _sources(self, now_s: float) -> dict[int, list[tuple[TopicPartition, int]]]:
        """The partitions that can be asked for, by the node that is asked."""
        sources: dict[int, list[tuple[TopicPartition, int]]] = {}
        for partition, offset in self._positions.items():
            pause = self._pauses.get(partition)
            if pause is not None and pause.until_s > now_s:
                continue
            node_id = self._source_of(partition)
            if node_id is None:
                self._pauses[partition] = _Pause(now_s + PAUSE_SECONDS, PAUSE_SECONDS)
            else:
                sources.setdefault(node_id, []).append((partition, offset))
        return sources

    def _source_of(self, partition: TopicPartition) -> int | None:
        state = self._access.partition(partition.topic, partition.partition)
        if state is None:
            # It may not be known here yet; the answer says whether that is so.
            return self._access.node_id
        if self._access.node_id in state.replicas and partition not in self._at_leader:
            return self._access.node_id
        return None if state.leader == NO_LEADER else state.leader

    async def _fetch(
        self, node_id: int, reads: Sequence[tuple[TopicPartition, int]], left_s: float
    ) -> list[Fetched | BrokerError]:
        """One answer for each. A fetch that fails as a whole failed for every partition."""
        reading = self._reading
        wait_ms = int(left_s * 1000) if node_id == self._access.node_id else 0
        asked = [Read(topic, index, offset, reading.max_bytes) for (topic, index), offset in reads]
        waiting = Waiting(wait_ms, 1, reading.max_bytes, reading.isolation)
        try:
            return await self._access.fetch_many(asked, waiting, at=node_id)
        except BrokerError as error:
            return [error] * len(asked)

    def _ask(self, sources: Mapping[int, list[tuple[TopicPartition, int]]], left_s: float) -> None:
        """All nodes that are not being asked."""
        for node_id, reads in sources.items():
            asked = self._asked.get(node_id)
            if asked is not None and len(asked.reads) < len(reads):
                # It waits without a partition that can be read again.
                asked.task.cancel()
                asked = None
            if asked is None:
                fetch = self._fetch(node_id, reads, left_s)
                self._asked[node_id] = _Asked(reads, self._tasks.start(fetch, "consumer fetch", is_awaited=True))

    async def _first_answers(self, left_s: float) -> tuple[bool, list[ReadPartition]]:
        """Whether the read was interrupted, and what was found."""
        self._interrupt = interrupt = asyncio.get_running_loop().create_future()
        waiting: list[asyncio.Future[object]] = [interrupt, *(asked.task for asked in self._asked.values())]  # type: ignore[list-item]
        try:
            await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._interrupt = None
        found: list[ReadPartition] = []
        for node_id, asked in list(self._asked.items()):
            if asked.task.done():
                del self._asked[node_id]
                if not asked.task.cancelled():
                    found += await self._take(node_id, asked.reads, asked.task.result())
        return interrupt.done(), found

    # -- answers -------------------------------------------------------------------------------------------------------

    async def _take(
        self, node_id: int, reads: Sequence[tuple[TopicPartition, int]], answers: Sequence[Fetched | BrokerError]
    ) -> list[ReadPartition]:
        found: list[ReadPartition] = []
        for (partition, offset), answer in zip(reads, answers, strict=True):
            if self._positions.get(partition) != offset:
                # It was given up or reset while the fetch was under way.
                continue
            if isinstance(answer, BrokerError):
                await self._pass_over(partition, offset, answer)
                continue
            if answer.region is not None:
                self._pauses.pop(partition, None)
                found.append(ReadPartition(partition, offset, answer))
            elif node_id == self._access.node_id:
                self._pauses.pop(partition, None)
            else:
                self._look_later(partition)
        return found

    def _look_later(self, partition: TopicPartition) -> None:
        """Another node has nothing new: the replica of this node, if there is one, may have come that far as well."""
        self._at_leader.discard(partition)
        last = self._pauses.get(partition)
        length_s = LOOK_SECONDS_MIN if last is None else min(2 * last.length_s, LOOK_SECONDS_MAX)
        self._pauses[partition] = _Pause(asyncio.get_running_loop().time() + length_s, length_s)

    async def _pass_over(self, partition: TopicPartition, offset: int, error: BrokerError) -> None:
        state = self._access.partition(partition.topic, partition.partition)
        # A node that has just been given a partition may not know it yet.
        is_missing = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        may_come = is_missing and (state is not None or self._reading.skips_missing)
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE and (
            state is None or state.leader == self._access.node_id or partition in self._at_leader
        ):
            self._positions[partition] = await self._reset(partition, offset)
        elif error.code in _PASSING or error.code is ErrorCode.OFFSET_OUT_OF_RANGE or may_come:
            # A replica that lags, or is no replica any more: the leader knows better.
            self._at_leader.add(partition)
            self._pauses[partition] = _Pause(asyncio.get_running_loop().time() + PAUSE_SECONDS, PAUSE_SECONDS)
        else:
            raise error

    async def _reset(self, partition: TopicPartition, offset: int) -> int:
        reset = self._reading.reset
        if reset is Reset.NONE:
            start = await find_offset(self._access, partition, EARLIEST)
            end = await find_offset(self._access, partition, LATEST)
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition} has the offsets from {start} to {end}; there is none to read at {offset}.",
            )
        return await find_offset(self._access, partition, EARLIEST if reset is Reset.EARLIEST else LATEST)


async def find_offset(access: LogAccess, partition: TopicPartition, timestamp: int) -> int:
    """The first offset at or after a time, or EARLIEST or LATEST, from the leader, wherever it is; the end of the log
    where no record is that new. Raises BrokerError."""
    now_s = asyncio.get_running_loop().time
    deadline_s = now_s() + FIND_SECONDS_MAX
    topic, index = partition
    while True:
        state = access.partition(topic, index)
        try:
            if state is not None and state.leader == NO_LEADER:
                raise access.leader_elsewhere(topic, index)
            leader = None if state is None else state.leader
            found = await access.list_offset(topic, index, timestamp, at=leader)
            if found.offset < 0 and timestamp >= 0:
                found = await access.list_offset(topic, index, LATEST, at=leader)
            return found.offset
        except BrokerError as error:
            is_passing = isinstance(error, LeaderElsewhere) or error.code in _PASSING
            if not is_passing or now_s() >= deadline_s:
                raise
        await asyncio.sleep(PAUSE_SECONDS)
