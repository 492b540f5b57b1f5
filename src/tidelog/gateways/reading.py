"""The records in what a fetch has read, for gateways: from an offset on, without markers and aborted transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.records.batch import LOG_OVERHEAD, iterate_headers
from tidelog.records.control import decode_end_txn_marker
from tidelog.records.record import iterate_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.gateways.access import Fetched
    from tidelog.records.record import Record


class ReadRecords(NamedTuple):
    records: list[Record]
    next_offset: int
    """Where to read on. It moves past batches that hold nothing for a reader, such as markers of transactions."""


def read_records(fetched: Fetched, offset: int) -> ReadRecords:
    """The records from `offset` on. Raises InvalidRecord, CorruptBatch or DecompressionError for damage."""
    data = fetched.load()
    records: list[Record] = []
    next_offset = offset
    filter_aborted = _AbortedTransactions(fetched.aborted) if fetched.aborted else None
    for position, header in iterate_headers(data):
        batch_end_offset = header.last_offset + 1
        if batch_end_offset <= offset:
            continue
        next_offset = batch_end_offset
        batch = data[position : position + header.batch_length + LOG_OVERHEAD]
        if header.is_control:
            if filter_aborted is not None and decode_end_txn_marker(batch) is not None:
                filter_aborted.end(header.producer_id)
            continue
        if (
            filter_aborted is not None
            and header.is_transactional
            and filter_aborted.covers(header.producer_id, header.last_offset)
        ):
            continue
        found = iterate_records(batch)
        if header.base_offset >= offset:
            records.extend(found)
        else:
            records.extend(record for record in found if record.offset >= offset)
    return ReadRecords(records, next_offset)


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
