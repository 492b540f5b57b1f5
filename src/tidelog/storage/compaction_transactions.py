"""Which batches belong to aborted transactions, followed batch by batch as compaction reads a log from its start.

Data of an aborted transaction is worthless at once. A marker is needed as long as data of its transaction may be read
together with it; once a pass meets a marker without data before it, the marker may go too (after its delete horizon).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.records.control import decode_end_txn_marker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.codec.buffers import Buffer
    from tidelog.records.batch import BatchHeader
    from tidelog.storage.txn_index import AbortedTransaction


class TransactionFollower:
    """`aborted` ascends by first offset; batches must be shown in the order of the log."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._aborted = aborted
        self._next = 0
        self._ongoing_aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_data: set[int] = set()
        self._committed_with_data: set[int] = set()

    def _advance(self, offset: int) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            transaction = self._aborted[self._next]
            self._ongoing_aborted[transaction.producer_id] = transaction
            self._next += 1

    def see_data(self, header: BatchHeader) -> bool:
        """True when the batch belongs to a transaction that was aborted."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing_aborted:
            self._aborted_with_data.add(header.producer_id)
            return True
        self._committed_with_data.add(header.producer_id)
        return False

    def see_marker(self, header: BatchHeader, batch: Buffer) -> tuple[bool, AbortedTransaction | None]:
        """Whether nothing needs the marker any more, and the transaction to be kept in the index if it aborted one."""
        self._advance(header.last_offset)
        if header.record_count == 0:
            # An earlier pass emptied it and kept the header only for its producer.
            return True, None
        marker = decode_end_txn_marker(batch)
        if marker is None:
            return False, None
        if marker.commit:
            if header.producer_id in self._committed_with_data:
                self._committed_with_data.remove(header.producer_id)
                return False, None
            return True, None
        transaction = self._ongoing_aborted.pop(header.producer_id, None)
        if transaction is not None and header.producer_id in self._aborted_with_data:
            self._aborted_with_data.remove(header.producer_id)
            return False, transaction
        return True, None
