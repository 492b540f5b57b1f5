"""What a host needs of the partition that stores the records of its core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.records.control import build_end_txn_marker


class LoadedBatch(NamedTuple):
    """One batch read back for replay."""

    records: Sequence[tuple[int, bytes | None, bytes | None]]
    """Offset, key and value of each."""
    producer_id: int = NO_PRODUCER_ID
    end_transaction: bool | None = None
    """For a transaction marker: True committed, False aborted; None for a batch of data."""


class Marker(NamedTuple):
    """The end of a producer's transaction, as it is written to every partition that took part."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    """Of the transaction coordinator: a partition refuses markers of one that has been replaced."""
    transaction_version: int = 0
    """From 2 on every end has an epoch of its own: see `ProducerState.check_end_epoch`. It is not stored."""

    def to_batch(self, timestamp_ms: int) -> bytes:
        return build_end_txn_marker(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            commit=self.commit,
            coordinator_epoch=self.coordinator_epoch,
            timestamp=timestamp_ms,
        )


class CoordinatorLog(Protocol):
    """The log of one partition of an internal topic that this node leads."""

    @property
    def is_empty(self) -> bool: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int:
        """Everything below is committed: it survives every failure that the cluster promises to survive."""

    @property
    def wall_clock_ms(self) -> Callable[[], int]:
        """The time of day, for timestamps."""

    def append(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        timestamp_ms: int,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> int:
        """Writes one batch and returns the offset after it; raises BrokerError with nothing written.

        After the return the batch is in this node's log. It is committed when `high_watermark` has reached the
        returned offset; on a node alone that holds at once.
        """

    def append_marker(self, marker: Marker, timestamp_ms: int) -> int:
        """Ends a producer's transaction in this partition; the rest as for `append`."""

    def batches(self) -> Iterable[LoadedBatch]:
        """Every batch from the log's start, read in bounded pieces; the host pauses between them."""

    def watch(self, on_commit: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Calls back on the event loop: the high watermark moved up to the end of the log as it is now or to something
        appended here, or never will."""

    def close(self) -> None:
        """Detaches this core from the partition; the partition itself stays."""
