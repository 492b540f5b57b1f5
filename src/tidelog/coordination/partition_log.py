"""A partition of an internal topic as the log of a core.

Durability: after `append` the batch is in the partition's log like any produced one; it counts as committed when the
partition's high watermark passes it, which with `tidelog.flush=ack` on the topic is after fsync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from tidelog.coordination.log import LoadedBatch, LoadedRecord
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.partitions.partition import Partition
from tidelog.records.batch import iterate_headers
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import decode_end_txn_marker
from tidelog.records.record import iterate_records

if TYPE_CHECKING:
    from tidelog.partitions.delayed import DelayedProduce

READ_BYTES = 1024 * 1024
"""How much is read at a time when a core is loaded."""


class PartitionLog:
    """Waits on the partition as a produce does: see `Partition.commit_waiters`."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._on_commit: Callable[[], None] | None = None
        self._on_lost: Callable[[], None] | None = None

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
        partition = self._partition
        if partition.failure is not None:
            raise partition.failure
        if not partition.leader.has_enough_in_sync(partition.config.min_insync_replicas):
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
        batch = build_batch(
            [NewRecord(key, value, timestamp_ms) for key, value in records],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=producer_id != NO_PRODUCER_ID,
        )
        if len(batch) > partition.config.max_message_bytes:
            raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE)
        end_offset = partition.append_own(batch, timestamp_ms).last_offset + 1
        if partition.high_watermark < end_offset and self._on_commit is not None:
            partition.commit_waiters.append((end_offset, cast("DelayedProduce", self)))
        return end_offset

    def batches(self) -> Iterator[LoadedBatch]:
        log = self._partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, READ_BYTES, upper_offset=log.log_end_offset, min_one_batch=True).load()
            for at, header in iterate_headers(data):
                offset = header.next_offset
                batch = memoryview(data)[at : at + header.size_in_bytes]
                if header.is_control:
                    marker = decode_end_txn_marker(batch)
                    if marker is not None:
                        yield LoadedBatch((), header.producer_id, marker.commit)
                    continue
                records = [LoadedRecord(record.offset, record.key, record.value) for record in iterate_records(batch)]
                yield LoadedBatch(records, header.producer_id if header.is_transactional else NO_PRODUCER_ID)

    def watch(self, on_commit: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self._on_commit = on_commit
        self._on_lost = on_lost

    def partition_committed(self, _partition: Partition) -> None:
        if self._on_commit is not None:
            self._on_commit()

    def partition_gone(self, _partition: Partition) -> None:
        if self._on_lost is not None:
            self._on_lost()

    def close(self) -> None:
        self._on_commit = self._on_lost = None
