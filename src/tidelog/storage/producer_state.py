"""What a partition remembers of its producers: enough to drop duplicates, refuse gaps and fence old epochs.

Kafka's rules, and one of our own for ids that Kafka never gives out (`check_ascending`). A check never changes anything
and comes before the bytes are written; an update never refuses and comes after. Batches of replication and recovery
were checked by the leader and are only recorded.
The same state knows which transactions are open, hence how far readers of committed data may go.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import KAFKA_PRODUCER_ID_MAX
from tidelog.model.limits import PRODUCER_BATCHES_RETAINED
from tidelog.records.batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchHeader
from tidelog.records.control import decode_end_txn_marker
from tidelog.storage.producer_snapshot import ProducerSnapshotEntry
from tidelog.storage.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tidelog.records.control import EndTransactionMarker

SEQUENCE_MAX: Final = 2**31 - 1
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
_new_batch: Final = tuple.__new__
"""Half the cost of the named tuple's own constructor."""


class AppendedBatch(NamedTuple):
    """A batch a producer may send again: how it is recognised and what the first attempt was answered."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Where the marker is."""
    aborted: bool


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers go from 0 to 2**31 - 1 and begin again at 0."""
    return (sequence + increment) & SEQUENCE_MAX


def decrement_sequence(sequence: int, decrement: int) -> int:
    return (sequence - decrement) & SEQUENCE_MAX


class ProducerEntry:
    """One producer. `batches` are of the current epoch only, oldest first."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "marker_offset",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[AppendedBatch] = deque(maxlen=PRODUCER_BATCHES_RETAINED)
        self.coordinator_epoch = NO_EPOCH
        self.last_timestamp = -1
        self.txn_first_offset: int | None = None
        """Where the open transaction begins; None when none is open."""
        self.marker_offset = NO_OFFSET
        """Where the one before ended; -1 if that was before the log was opened. In no snapshot."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def has_ended(self, batch: AppendedBatch) -> bool:
        """Whether the batch belongs to a transaction that is over.

        Works with what a snapshot holds: a marker leaves its coordinator's epoch, and it lies above all batches but
        those of the transaction that is open now.
        """
        if self.coordinator_epoch == NO_EPOCH:
            return False
        return self.txn_first_offset is None or batch.last_offset < self.txn_first_offset

    def begin_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


def check_ascending(
    entry: ProducerEntry | None, epoch: int, base_sequence: int, last_offset_delta: int
) -> AppendedBatch | None:
    """As `ProducerState.check_batch`, for producers that number their records themselves, ascending and with gaps.

    The epoch is the upper part of the number and the sequence the lower: what is above the last number is new. Anything
    else is a duplicate, or a number that was skipped and comes too late. The earlier append is that of the same
    batch; where it is forgotten, one that begins at offset -1 and is committed with the last batch of the producer.
    """
    last_sequence = base_sequence + last_offset_delta
    if last_sequence > SEQUENCE_MAX:
        raise BrokerError(
            ErrorCode.INVALID_RECORD, f"The numbers of a batch go from {base_sequence} over {SEQUENCE_MAX}."
        )
    if entry is None or epoch > entry.epoch or not entry.batches:
        return None
    last = entry.batches[-1]
    if epoch == entry.epoch:
        if base_sequence > last.last_sequence:
            return None
        if last_sequence > last.last_sequence:
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {entry.producer_id} sent numbers {base_sequence} to {last_sequence}, "
                f"and {last.last_sequence} was written.",
            )
        for batch in entry.batches:
            if batch.last_sequence == last_sequence and batch.offset_delta == last_offset_delta:
                return batch
    return AppendedBatch(last_sequence, last.last_offset, last.last_offset + 1, last.timestamp)


def _no_transactions(producer_id: int) -> BrokerError:
    return BrokerError(
        ErrorCode.INVALID_TXN_STATE,
        f"Producer ids above {KAFKA_PRODUCER_ID_MAX} have no transactions, and {producer_id} is one.",
    )


class ProducerState:
    """All producers of one partition. Open transactions are keyed by first offset, ascending by construction."""

    __slots__ = ("_entries", "_open", "_undelivered", "expiration_ms")

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self._entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}
        """First offset -> producer id."""
        self._undelivered: dict[int, int] = {}
        """First offset -> marker offset, ascending by the marker, of transactions that ended above the high watermark:
        still unstable."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def check_batch(
        self, producer_id: int, epoch: int, base_sequence: int, last_offset_delta: int, *, transactional: bool
    ) -> AppendedBatch | None:
        """None when the batch may be appended, the earlier append when it is a duplicate; otherwise a BrokerError.

        No client sends a batch again when its transaction has ended: what looks like it holds other records, under
        numbers that were used before. Kafka takes it for a duplicate, and they are lost; here it is refused.

        A producer that is not remembered may begin with any sequence: its state may have gone with old segments.
        Batches that the broker writes for a producer (offset commits in a transaction) carry no sequence and are not
        checked for it.
        """
        if producer_id > KAFKA_PRODUCER_ID_MAX:
            if transactional:
                raise _no_transactions(producer_id)
            return check_ascending(self._entries.get(producer_id), epoch, base_sequence, last_offset_delta)
        entry = self._entries.get(producer_id)
        if entry is None:
            return None
        if epoch == entry.epoch:
            if base_sequence >= 0:
                last_sequence = (base_sequence + last_offset_delta) & SEQUENCE_MAX
                batches = entry.batches
                for batch in batches:
                    if batch[0] == last_sequence and batch[2] == last_offset_delta:
                        if entry.has_ended(batch):
                            raise self._used_again(entry, base_sequence)
                        return batch
                previous = batches[-1][0] if batches else NO_SEQUENCE
                if base_sequence != previous + 1 and not (base_sequence == 0 and previous == SEQUENCE_MAX):
                    raise self._out_of_order(entry, base_sequence)
        elif epoch < entry.epoch:
            raise self._stale_epoch(entry, epoch)
        elif base_sequence > 0:
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} began epoch {epoch} with sequence {base_sequence} instead of 0.",
            )
        if entry.txn_first_offset is not None and not transactional:
            raise BrokerError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {producer_id} sent a batch outside its transaction, open since {entry.txn_first_offset}.",
            )
        return None

    def check_marker(self, marker: EndTransactionMarker) -> None:
        """A marker of an older producer epoch or an older coordinator is refused."""
        if marker.producer_id > KAFKA_PRODUCER_ID_MAX:
            raise _no_transactions(marker.producer_id)
        entry = self._entries.get(marker.producer_id)
        if entry is None:
            return
        if marker.producer_epoch < entry.epoch:
            raise self._stale_epoch(entry, marker.producer_epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise BrokerError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Coordinator epoch {marker.coordinator_epoch} of producer {marker.producer_id} "
                f"is older than {entry.coordinator_epoch}.",
            )

    def check_end_epoch(self, producer_id: int, epoch: int) -> None:
        """The end of a transaction under a new epoch (KIP-890) does not carry the one that the open one writes with:
        that would be a late marker of the transaction before, and end this one."""
        entry = self._entries.get(producer_id)
        if entry is not None and entry.txn_first_offset is not None and epoch <= entry.epoch:
            raise BrokerError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {epoch} of the end is not above {entry.epoch}, in which producer {producer_id} writes.",
            )

    @staticmethod
    def _used_again(entry: ProducerEntry, base_sequence: int) -> BrokerError:
        """Clients recover from this code by themselves: they abort and go on with the next epoch. From
        OUT_OF_ORDER_SEQUENCE_NUMBER all do but librdkafka, whose producer it ends for good."""
        return BrokerError(
            ErrorCode.UNKNOWN_PRODUCER_ID,
            f"Producer {entry.producer_id} sent sequence {base_sequence}, "
            f"but {entry.last_sequence} was written in a transaction that has ended.",
        )

    @classmethod
    def _out_of_order(cls, entry: ProducerEntry, base_sequence: int) -> BrokerError:
        previous = entry.last_sequence
        goes_back = previous != NO_SEQUENCE and decrement_sequence(previous, base_sequence) <= SEQUENCE_MAX // 2
        if goes_back and entry.has_ended(entry.batches[-1]):
            return cls._used_again(entry, base_sequence)
        return BrokerError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Producer {entry.producer_id} sent sequence {base_sequence} after {previous}.",
        )

    @staticmethod
    def _stale_epoch(entry: ProducerEntry, epoch: int) -> BrokerError:
        return BrokerError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch {epoch} of producer {entry.producer_id} is older than {entry.epoch}.",
        )

    def record_batch(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp: int,
        *,
        transactional: bool,
    ) -> None:
        """A data batch is in the log."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id, epoch)
        elif entry.epoch != epoch:
            entry.begin_epoch(epoch)
        delta = last_offset - base_offset
        last_sequence = (base_sequence + delta) & SEQUENCE_MAX if base_sequence >= 0 else NO_SEQUENCE
        entry.batches.append(_new_batch(AppendedBatch, (last_sequence, last_offset, delta, timestamp)))
        entry.last_timestamp = timestamp
        if transactional and entry.txn_first_offset is None:
            entry.txn_first_offset = base_offset
            self._open[base_offset] = producer_id

    def record_marker(self, marker: EndTransactionMarker, offset: int) -> CompletedTransaction | None:
        """A transaction marker is in the log at `offset`; None when no data of its transaction is in this partition."""
        entry = self._entries.get(marker.producer_id)
        if entry is None:
            entry = self._entries[marker.producer_id] = ProducerEntry(marker.producer_id, marker.producer_epoch)
        entry.begin_epoch(marker.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = marker.timestamp
        entry.marker_offset = offset
        first_offset = entry.txn_first_offset
        entry.txn_first_offset = None
        if first_offset is None:
            return None
        self._open.pop(first_offset, None)
        self._undelivered[first_offset] = offset
        return CompletedTransaction(marker.producer_id, first_offset, offset, not marker.commit)

    def replay_batch(self, header: BatchHeader, batch: memoryview) -> AbortedTransaction | None:
        """Record a batch that is in the log, whatever it is; the transaction it aborts, if any."""
        if header.producer_id < 0:
            return None
        if header.attributes & CONTROL_MASK:
            marker = decode_end_txn_marker(batch)
            completed = None if marker is None else self.record_marker(marker, header.base_offset)
            return None if completed is None else self.aborted(completed)
        self.record_batch(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.base_offset,
            header.base_offset + header.last_offset_delta,
            header.max_timestamp,
            transactional=header.attributes & TRANSACTIONAL_MASK != 0,
        )
        return None

    def aborted(self, completed: CompletedTransaction) -> AbortedTransaction | None:
        """What the transaction index must say of a transaction that has just been recorded as complete."""
        if not completed.aborted:
            return None
        first_open = self.first_open_offset
        return AbortedTransaction(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            completed.last_offset + 1 if first_open is None else first_open,
        )

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest transaction begins that has no marker yet."""
        return next(iter(self._open), None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins whose outcome is unknown or not yet below the high watermark."""
        self.high_watermark_moved(high_watermark)
        undelivered = self._undelivered
        first_open = next(iter(self._open), None)
        if undelivered:
            first = min(undelivered)
            return first if first_open is None else min(first, first_open)
        return first_open

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Transactions whose marker is below are over for all readers."""
        undelivered = self._undelivered
        if not undelivered:
            return
        delivered: list[int] = []
        for first_offset, marker in undelivered.items():
            if marker >= high_watermark:
                break
            delivered.append(first_offset)
        if len(delivered) == len(undelivered):
            undelivered.clear()
            return
        for first_offset in delivered:
            del undelivered[first_offset]

    def remove_expired(self, now_ms: int) -> int:
        """Forget producers that have been silent for too long and have no open transaction; how many."""
        limit = now_ms - self.expiration_ms
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.txn_first_offset is None and entry.last_timestamp <= limit
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def clear(self) -> None:
        self._entries.clear()
        self._open.clear()
        self._undelivered.clear()

    def snapshot(self) -> list[ProducerSnapshotEntry]:
        entries = []
        for entry in self._entries.values():
            last = (
                entry.batches[-1] if entry.batches else AppendedBatch(NO_SEQUENCE, NO_OFFSET, 0, entry.last_timestamp)
            )
            open_at = NO_OFFSET if entry.txn_first_offset is None else entry.txn_first_offset
            entries.append(
                ProducerSnapshotEntry(
                    entry.producer_id,
                    entry.epoch,
                    last.last_sequence,
                    last.last_offset,
                    last.offset_delta,
                    entry.last_timestamp,
                    entry.coordinator_epoch,
                    open_at,
                )
            )
        return entries

    def restore(self, entries: Iterable[ProducerSnapshotEntry], now_ms: int) -> None:
        """Replace everything with a snapshot, leaving out producers that expired in the meantime."""
        self.clear()
        for saved in entries:
            if saved.txn_first_offset < 0 and now_ms - saved.timestamp >= self.expiration_ms:
                continue
            entry = ProducerEntry(saved.producer_id, saved.epoch)
            if saved.last_offset >= 0:
                entry.batches.append(
                    AppendedBatch(saved.last_sequence, saved.last_offset, saved.offset_delta, saved.timestamp)
                )
            entry.last_timestamp = saved.timestamp
            entry.coordinator_epoch = saved.coordinator_epoch
            entry.txn_first_offset = saved.txn_first_offset if saved.txn_first_offset >= 0 else None
            self._entries[saved.producer_id] = entry
        open_transactions = (
            (entry.txn_first_offset, entry.producer_id) for entry in self if entry.txn_first_offset is not None
        )
        self._open = dict(sorted(open_transactions))
