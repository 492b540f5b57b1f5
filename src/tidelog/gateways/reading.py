"""The records in what a fetch has read, for gateways: from an offset on, without markers and aborted transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.model.limits import GATEWAY_BATCH_BYTES_MAX
from tidelog.records.batch import LOG_OVERHEAD, BatchHeader, iterate_headers
from tidelog.records.control import decode_end_txn_marker
from tidelog.records.record import iterate_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.gateways.access import Fetched
    from tidelog.records.record import Record

WINDOW_BYTES: Final = 256 * 1024
"""How much of a region of a file is in memory at a time; one batch always fits."""


class ReadRecords(NamedTuple):
    records: list[Record]
    next_offset: int
    """Where to read on. It moves past batches that hold nothing for a reader, such as markers of transactions."""


def read_records(fetched: Fetched, offset: int) -> ReadRecords:
    """The records from `offset` on. Raises BrokerError for damage."""
    reader = RecordReader(fetched, offset)
    return ReadRecords(list(reader), reader.next_offset)


class RecordReader:
    """The same one by one: a batch is loaded when its first record is asked for. Iterated once."""

    __slots__ = ("_aborted", "_fetched", "leader_epoch", "next_offset")

    def __init__(self, fetched: Fetched, offset: int) -> None:
        self._fetched = fetched
        self._aborted = _AbortedTransactions(fetched.aborted) if fetched.aborted else None
        self.next_offset = offset
        """Where to read on, once all records were taken."""
        self.leader_epoch = -1
        """That wrote the last batch that was read; -1 without one."""

    def __iter__(self) -> Iterator[Record]:
        offset = self.next_offset
        for header, batch in _iterate_batches(self._fetched):
            if header.next_offset <= offset:
                continue
            if not self._is_left_out(header, batch):
                records = iterate_records(batch, GATEWAY_BATCH_BYTES_MAX)
                if header.base_offset >= offset:
                    yield from records
                else:
                    yield from (record for record in records if record.offset >= offset)
            self.next_offset, self.leader_epoch = header.next_offset, header.partition_leader_epoch

    def skip(self) -> None:
        """Past all records, without opening their batches."""
        for header, _ in _iterate_batches(self._fetched):
            if header.next_offset > self.next_offset:
                self.next_offset, self.leader_epoch = header.next_offset, header.partition_leader_epoch

    def _is_left_out(self, header: BatchHeader, batch: bytes) -> bool:
        if header.is_control:
            if self._aborted is not None and decode_end_txn_marker(batch) is not None:
                self._aborted.end(header.producer_id)
            return True
        return (
            self._aborted is not None
            and header.is_transactional
            and self._aborted.covers(header.producer_id, header.last_offset)
        )


def _iterate_batches(fetched: Fetched) -> Iterator[tuple[BatchHeader, bytes]]:
    """Each whole batch, with its header. One that is cut short ends them."""
    region = fetched.region
    if region is None:
        return
    if isinstance(region, bytes):
        for position, header in iterate_headers(region):
            yield header, region[position : position + header.size_in_bytes]
        return
    start, window = 0, WINDOW_BYTES
    while start < region.size:
        data = region.load(start, min(window, region.size - start))
        end = 0
        for position, header in iterate_headers(data):
            end = position + header.size_in_bytes
            yield header, data[position:end]
        if end:
            start, window = start + end, WINDOW_BYTES
        elif len(data) < window:
            # The rest of the region, or of the log: it has no whole batch.
            return
        else:
            window = int.from_bytes(data[8:12], "big") + LOG_OVERHEAD


class _AbortedTransactions:
    """Which producers are in an aborted transaction at the place that is read: each from its first offset there to the
    next marker of the producer."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._open: set[int] = set()

    def covers(self, producer_id: int, last_offset: int) -> bool:
        while self._coming and self._coming[-1][1] <= last_offset:
            self._open.add(self._coming.pop()[0])
        return producer_id in self._open

    def end(self, producer_id: int) -> None:
        self._open.discard(producer_id)
