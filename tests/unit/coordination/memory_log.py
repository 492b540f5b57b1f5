"""A partition log in memory: what a CoordinatorLog promises, with commit and failure in the test's hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tidelog.coordination.log import LoadedBatch, Marker
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.runtime.clock import wall_clock_ms

BATCH_BYTES_MAX = 1 << 20
"""As the default of `max.message.bytes`."""


class MemoryLog:
    def __init__(self, *, commits_at_once: bool = True) -> None:
        self.batches_written: list[list[tuple[bytes, bytes | None]]] = []
        self.producers: list[tuple[int, bool | None]] = []
        """Of each batch: whose transaction it belongs to, and for a marker whether it commits."""
        self.commits_at_once = commits_at_once
        self.high_watermark = 0
        self.end_offset = 0
        self.refusal: BrokerError | None = None
        """Raised by the next appends, with nothing written."""
        self._batches_max: int | None = None
        self.is_closed = False
        self._on_commit: Callable[[], None] | None = None
        self._on_lost: Callable[[], None] | None = None

    @property
    def wall_clock_ms(self) -> Callable[[], int]:
        return wall_clock_ms

    @property
    def is_empty(self) -> bool:
        return self.end_offset == 0

    def append(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> int:
        if self.refusal is not None:
            raise self.refusal
        if self._batches_max is not None and len(self.batches_written) >= self._batches_max:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)
        assert records
        if sum(len(key) + len(value or b"") for key, value in records) > BATCH_BYTES_MAX:
            raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE)
        return self._append(list(records), producer_id, None)

    def refuse_after(self, batches: int | None) -> None:
        """No more than so many batches can be written from now on; None for any number."""
        self._batches_max = batches

    def append_marker(self, marker: Marker, timestamp_ms: int) -> int:
        if self.refusal is not None:
            raise self.refusal
        return self._append([], marker.producer_id, marker.commit)

    def _append(self, records: list[tuple[bytes, bytes | None]], producer_id: int, end_transaction: bool | None) -> int:
        self.batches_written.append(records)
        self.producers.append((producer_id, end_transaction))
        self.end_offset += max(1, len(records))
        if self.commits_at_once:
            self.high_watermark = self.end_offset
        return self.end_offset

    def commit(self, offset: int | None = None) -> None:
        self.high_watermark = self.end_offset if offset is None else offset
        if self._on_commit is not None:
            self._on_commit()

    def lose(self) -> None:
        assert self._on_lost is not None
        self._on_lost()

    def batches(self) -> Iterator[LoadedBatch]:
        offset = 0
        for batch, (producer_id, end_transaction) in zip(self.batches_written, self.producers, strict=True):
            records = [(offset + at, key, value) for at, (key, value) in enumerate(batch)]
            yield LoadedBatch(records, producer_id, end_transaction)
            offset += max(1, len(batch))

    def watch(self, on_commit: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self._on_commit, self._on_lost = on_commit, on_lost

    def close(self) -> None:
        self.is_closed = True
