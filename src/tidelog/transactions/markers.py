"""Writes the end of a transaction into the partitions that took part, on this node.

What WriteTxnMarkers asks of a node and what the coordinator asks of itself go through here. Partitions of the offsets
topic belong to the group coordinator: it writes the marker and settles the offsets that waited for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from tidelog.coordination.log import Marker
from tidelog.coordination.partitioning import OFFSETS_TOPIC
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tidelog.partitions.partition import Partition
    from tidelog.partitions.table import PartitionTable

MOVES_EPOCH_FROM = 2
"""The first transaction version (KIP-890) in which every end moves the producer's epoch."""


class MarkerWriter(Protocol):
    def write(self, marker: Marker, partition: TopicPartition) -> Awaitable[None] | None:
        """Writes one marker. Done when the result is, None for at once; raises BrokerError when it was not written."""


class LocalMarkers:
    def __init__(
        self,
        table: PartitionTable,
        end_offsets: Callable[[int, Marker], Awaitable[None] | None],
        now_ms: Callable[[], int],
    ) -> None:
        """`end_offsets` does the work for a partition of the offsets topic."""
        self._table = table
        self._end_offsets = end_offsets
        self._now_ms = now_ms

    def write(self, marker: Marker, partition: TopicPartition) -> Awaitable[None] | None:
        found = self._table.require(*partition)
        if marker.transaction_version >= MOVES_EPOCH_FROM:
            found.log.producer_state.check_end_epoch(marker.producer_id, marker.producer_epoch)
        if partition.topic == OFFSETS_TOPIC:
            return self._end_offsets(partition.partition, marker)
        if not found.leader.has_enough_in_sync:
            raise BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
        now_ms = self._now_ms()
        end_offset = found.append_own(marker.to_batch(now_ms), now_ms).last_offset + 1
        if found.high_watermark >= end_offset:
            return None
        return _Commit(found, end_offset).done


class _Commit:
    """Waits on a partition as a produce does."""

    def __init__(self, partition: Partition, end_offset: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partition.commit_waiters.append((end_offset, self))

    def partition_committed(self, partition: Partition, /) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def partition_gone(self, partition: Partition, error: BrokerError, /) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def gives_up_short_of_replicas(self, partition: Partition, /) -> bool:
        return False
