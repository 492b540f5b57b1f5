"""A partition of an internal topic as the log of a core.

Durability: after `append` the batch is in the partition's log like any produced one; it counts as committed when the
partition's high watermark passes it, which with `tidelog.flush=ack` on the topic is after fsync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidelog.coordination.batching import encode_batch, read_batches
from tidelog.coordination.log import LoadedBatch, Marker
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.partitions.partition import Partition

READ_BYTES = 1024 * 1024
"""How much is read at a time when a core is loaded."""


class PartitionLog:
    """Waits on the partition as a produce does: see `Partition.commit_waiters`."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._on_commit: Callable[[], None] | None = None
        self._on_lost: Callable[[], None] | None = None

    @property
    def wall_clock_ms(self) -> Callable[[], int]:
        return self._partition.log.wall_clock_ms

    @property
    def is_empty(self) -> bool:
        log = self._partition.log
        return log.log_start_offset == log.log_end_offset

    @property
    def end_offset(self) -> int:
        return self._partition.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark

    def append(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        timestamp_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> int:
        batch = encode_batch(records, timestamp_ms, producer_id, producer_epoch)
        if len(batch) > self._partition.config.max_message_bytes:
            raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE)
        return self._append(batch, timestamp_ms)

    def append_marker(self, marker: Marker, timestamp_ms: int) -> int:
        return self._append(marker.to_batch(timestamp_ms), timestamp_ms)

    def _append(self, batch: bytes, timestamp_ms: int) -> int:
        partition = self._partition
        if partition.failure is not None:
            raise partition.failure
        if not partition.leader.has_enough_in_sync:
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
        end_offset = partition.append_own(batch, timestamp_ms).last_offset + 1
        self._await_commit(end_offset)
        return end_offset

    def batches(self) -> Iterator[LoadedBatch]:
        log = self._partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.reader.read(offset, READ_BYTES, upper_offset=log.log_end_offset, min_one_batch=True).load()
            reached = offset
            for reached, batch in read_batches(data):  # noqa: B007
                if batch is not None:
                    yield batch
            if reached == offset:
                # Compaction may have removed the end of the log: then there is nothing more to read.
                return
            offset = reached

    def watch(self, on_commit: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self._on_commit = on_commit
        self._on_lost = on_lost
        # What the last leader wrote may not be committed yet, and a read appends nothing whose commit would show it.
        self._await_commit(self.end_offset)

    def _await_commit(self, end_offset: int) -> None:
        partition = self._partition
        if partition.high_watermark < end_offset and self._on_commit is not None:
            partition.commit_waiters.append((end_offset, self))

    def partition_committed(self, partition: Partition, /) -> None:
        if self._on_commit is not None:
            self._on_commit()

    def partition_gone(self, partition: Partition, error: BrokerError, /) -> None:
        if self._on_lost is not None:
            self._on_lost()

    def gives_up_short_of_replicas(self, partition: Partition, /) -> bool:
        """What was replayed stays; the host answers the callers when their commit timeout ends."""
        return False

    def close(self) -> None:
        self._on_commit = self._on_lost = None
