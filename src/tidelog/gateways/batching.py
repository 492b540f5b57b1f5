"""Records that come one by one, written in batches: one batch of a partition is under way at a time.

So the order within a partition stays whatever is sent again, and a slow partition gets larger batches instead of more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidelog.gateways.access import ACKS_ALL
from tidelog.gateways.partitioner import next_turn
from tidelog.metadata.image import NO_LEADER
from tidelog.model import limits
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.value import Value
from tidelog.records.builder import NewRecord, build_batch
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.telemetry.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.gateways.access import LogAccess

logger = get_logger("tidelog.gateways")

RECORD_OVERHEAD_BYTES: Final = 20
"""About what a record takes beside its key, its value and its headers."""
PAUSE_SECONDS: Final = 0.1
"""Before a batch is sent again that no leader has taken."""

_NOT_WRITTEN: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS}
)
"""After these the batch may be sent again: none of it is in the log."""
_OF_ONE_RECORD: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
    }
)
"""These refuse a batch for its size or for one of its records: the others are taken in smaller ones."""


class Writing(Value):
    """How records are written."""

    acks: int = ACKS_ALL
    timeout_ms: int = 30_000


class Batch:
    """Records of one partition, in their order, and what became of each."""

    __slots__ = ("outcomes", "partition", "records", "size")

    def __init__(self, partition: int) -> None:
        self.partition: Final = partition
        self.records: list[NewRecord] = []
        self.size = 0
        self.outcomes: list[int | BrokerError] = []
        """The offset of each record, or why it was refused; filled from the front."""

    def add(self, record: NewRecord) -> int:
        """The size that it adds."""
        size = size_of(record)
        self.records.append(record)
        self.size += size
        return size

    def accept(self, base_offset: int, count: int) -> None:
        """The next records of the batch are in the log, from this offset on; -1 for one that nobody knows."""
        self.outcomes += [base_offset] * count if base_offset < 0 else range(base_offset, base_offset + count)

    def refuse(self, error: BrokerError, count: int) -> None:
        self.outcomes += [error] * count

    def refuse_rest(self, error: BrokerError) -> None:
        self.refuse(error, len(self.records) - len(self.outcomes))


class BatchingProducer:
    """Writes to the partitions of one topic. All methods belong to the event loop."""

    def __init__(self, access: LogAccess, topic: str, writing: Writing, on_written: Callable[[], None]) -> None:
        """`on_written` is called when a batch has its outcomes."""
        self._access = access
        self._topic = topic
        self._writing = writing
        self._on_written = on_written
        self._open: dict[int, Batch] = {}
        self._full: dict[int, deque[Batch]] = {}
        """Of partitions that are being written to: what goes before the open batch."""
        self._turn: int | None = None
        """The partition of records that name none."""
        self._tasks = BackgroundTasks()
        self.unwritten_bytes = 0

    @property
    def partition_count(self) -> int:
        """0 for a topic that is gone."""
        found = self._access.image.topics.get(self._topic)
        return 0 if found is None else len(found.partitions)

    def add(self, partition: int | None, record: NewRecord) -> tuple[Batch, int]:
        """The batch that has the record now, and its place there. Without a partition the records that come together
        stay together."""
        if partition is None:
            if self._turn is None:
                self._turn = self._next_turn()
            partition = self._turn
        batch = self._open.get(partition)
        if batch is None:
            batch = self._open[partition] = Batch(partition)
        self.unwritten_bytes += batch.add(record)
        if batch.size >= limits.GATEWAY_BATCH_BYTES:
            del self._open[partition]
            if partition == self._turn:
                self._turn = None
            self._send(partition, batch)
        return batch, len(batch.records) - 1

    def flush(self) -> None:
        """Sends what there is, but for partitions that are being written to: theirs go next."""
        self._turn = None
        for partition in list(self._open):
            if partition not in self._full:
                self._send(partition, self._open.pop(partition))

    async def close(self) -> None:
        """What was not sent is dropped."""
        await self._tasks.close()

    def _next_turn(self) -> int:
        """One that has a leader, if there is any."""
        partitions = self._access.image.topics[self._topic].partitions
        for _ in partitions:
            turn = next_turn(len(partitions))
            if partitions[turn].leader != NO_LEADER:
                return turn
        return next_turn(len(partitions))

    # -- writing -------------------------------------------------------------------------------------------------------

    def _send(self, partition: int, batch: Batch) -> None:
        waiting = self._full.get(partition)
        if waiting is None:
            self._full[partition] = deque((batch,))
            self._tasks.start(self._write_all(partition), "batches of a partition")
        else:
            waiting.append(batch)

    async def _write_all(self, partition: int) -> None:
        waiting = self._full[partition]
        while True:
            batch = waiting.popleft() if waiting else self._open.pop(partition, None)
            if batch is None:
                break
            try:
                await self._write(batch, batch.records)
            except Exception:
                # Whoever waits for the outcomes must get some.
                logger.exception_limited("a batch could not be written", limit_by=())
                batch.refuse_rest(BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR))
            self.unwritten_bytes -= batch.size
            self._on_written()
        del self._full[partition]

    async def _write(self, batch: Batch, records: Sequence[NewRecord]) -> None:
        try:
            base_offset = await self._append(batch.partition, build_batch(records))
        except BrokerError as error:
            if error.code in _OF_ONE_RECORD and len(records) > 1:
                half = len(records) // 2
                await self._write(batch, records[:half])
                await self._write(batch, records[half:])
            else:
                batch.refuse(error, len(records))
        else:
            batch.accept(base_offset, len(records))

    async def _append(self, partition: int, data: bytes) -> int:
        access, topic, writing = self._access, self._topic, self._writing
        now_s = asyncio.get_running_loop().time
        deadline_s = now_s() + writing.timeout_ms / 1000
        while True:
            state = access.partition(topic, partition)
            try:
                if state is not None and state.leader == NO_LEADER:
                    raise access.leader_elsewhere(topic, partition)
                appended = await access.produce(
                    topic,
                    partition,
                    data,
                    acks=writing.acks,
                    timeout_ms=writing.timeout_ms,
                    at=None if state is None else state.leader,
                )
            except BrokerError as error:
                if error.code not in _NOT_WRITTEN or now_s() >= deadline_s:
                    raise
            else:
                return appended.base_offset
            await asyncio.sleep(PAUSE_SECONDS)


def size_of(record: NewRecord) -> int:
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"") + 2
    return size
