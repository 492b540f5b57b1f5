"""All transactional ids of one partition of `__transaction_state`: the core that the coordinator hosts.

`decide_*` takes a request and a moment and returns what to write and what to answer; `replay` folds written records
into the state and is the only thing that changes it. Markers are the shell's work: the core says which outcomes are
prepared (`prepared_ids`), and learns when their markers are written (`decide_complete`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.coordination.decision import Decision, Moment
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from tidelog.model.limits import DECISION_BYTES_MAX
from tidelog.transactions.core import ending
from tidelog.transactions.core.messages import AddPartitions, End, Ended, Filters, Init, Initialised, Listed, Swept
from tidelog.transactions.core.metadata import EPOCH_MAX, NO_TIMESTAMP, TransactionMetadata, is_exhausted
from tidelog.transactions.core.records import TransactionRecord, decode_record, encode_record
from tidelog.transactions.core.settings import RECORD_BYTES_WITHOUT_NAMES_MAX, TransactionSettings
from tidelog.transactions.core.state import TransactionState

_S = TransactionState


class TransactionShard:
    decode_record = staticmethod(decode_record)

    def __init__(self, settings: TransactionSettings) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}
        self._ongoing: dict[str, None] = {}
        """Ids with an ongoing transaction, which are few beside all."""
        self._settings = settings

    # -- producers ---------------------------------------------------------------------------------------------------

    def decide_init(self, request: Init, now: Moment) -> Decision[Initialised]:
        """A producer starts, or goes on after an error: it gets an epoch that fences all producers before it."""
        if not 0 < request.timeout_ms <= self._settings.max_timeout_ms:
            return Decision(Initialised(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        metadata = self.transactions.get(request.transactional_id)
        if metadata is None:
            if request.fresh_producer_id == NO_PRODUCER_ID:
                return Decision(Initialised(ErrorCode.NONE, needs_producer_id=True))
            created = TransactionMetadata(
                producer_id=request.fresh_producer_id,
                producer_epoch=0,
                timeout_ms=request.timeout_ms,
                state=_S.EMPTY,
                partitions=frozenset(),
                start_timestamp_ms=NO_TIMESTAMP,
                update_timestamp_ms=now.wall_ms,
            )
            return _initialised(request, created)
        if metadata.is_about_to_become(request.producer_id):
            return Decision(Initialised(ErrorCode.CONCURRENT_TRANSACTIONS))
        if not _may_continue(metadata, request):
            return Decision(Initialised(ErrorCode.PRODUCER_FENCED))
        if metadata.state.is_prepared:
            return Decision(Initialised(ErrorCode.CONCURRENT_TRANSACTIONS))
        if metadata.state is _S.ONGOING:
            # No response carries the epoch of the abort; the producer gets its own when it asks again.
            aborting = Decision(Initialised(ErrorCode.CONCURRENT_TRANSACTIONS, prepared=True))
            aborting.records.append(TransactionRecord(request.transactional_id, ending.fence(metadata, now.wall_ms)))
            return aborting
        return self._next_epoch(metadata, request, now)

    def _next_epoch(self, metadata: TransactionMetadata, request: Init, now: Moment) -> Decision[Initialised]:
        expects = request.producer_epoch != NO_PRODUCER_EPOCH
        start = {"timeout_ms": request.timeout_ms, "partitions": frozenset(), "start_timestamp_ms": NO_TIMESTAMP}
        is_current = not expects or request.producer_epoch == metadata.producer_epoch
        if metadata.producer_epoch == EPOCH_MAX:
            # A fenced producer goes on under the epoch that it was fenced with, but the last epoch is never given out.
            is_current = is_current or request.producer_epoch == metadata.last_producer_epoch
        if metadata.is_epoch_exhausted and is_current:
            if request.fresh_producer_id == NO_PRODUCER_ID:
                return Decision(Initialised(ErrorCode.NONE, needs_producer_id=True))
            rotated = metadata.transition(
                _S.EMPTY,
                now.wall_ms,
                producer_id=request.fresh_producer_id,
                producer_epoch=0,
                last_producer_epoch=request.producer_epoch,
                client_version=0,
                **start,
            )
            return _initialised(request, rotated)
        if not expects:
            epoch, last_epoch = metadata.producer_epoch + 1, NO_PRODUCER_EPOCH
        elif request.producer_epoch == metadata.producer_epoch:
            epoch, last_epoch = metadata.producer_epoch + 1, metadata.producer_epoch
        elif request.producer_epoch == metadata.last_producer_epoch:
            # A repeated request: its answer was lost. A producer that started since would have cleared the last epoch.
            epoch, last_epoch = metadata.producer_epoch, metadata.last_producer_epoch
        else:
            return Decision(Initialised(ErrorCode.PRODUCER_FENCED))
        moved = metadata.transition(
            _S.EMPTY,
            now.wall_ms,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            client_version=0,
            **start,
        )
        return _initialised(request, moved)

    # -- partitions --------------------------------------------------------------------------------------------------

    def decide_add_partitions(self, request: AddPartitions, now: Moment) -> Decision[ErrorCode]:
        """The first partition begins the transaction."""
        metadata = self.transactions.get(request.transactional_id)
        error = _check_producer(metadata, request)
        if error is not ErrorCode.NONE:
            return Decision(error)
        assert metadata is not None
        if metadata.state is _S.ONGOING and request.partitions <= metadata.partitions:
            return Decision(ErrorCode.NONE)
        start_ms = metadata.start_timestamp_ms if metadata.state is _S.ONGOING else now.wall_ms
        added = metadata.transition(
            _S.ONGOING,
            now.wall_ms,
            partitions=(metadata.partitions if metadata.state is _S.ONGOING else frozenset()) | request.partitions,
            start_timestamp_ms=start_ms,
        )
        decision = Decision(ErrorCode.NONE)
        decision.records.append(TransactionRecord(request.transactional_id, added))
        return decision

    def verify_partitions(self, request: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        """Whether records may be written to these partitions in the producer's transaction; changes nothing."""
        metadata = self.transactions.get(request.transactional_id)
        error = _check_producer(metadata, request)
        if error is not ErrorCode.NONE:
            return dict.fromkeys(request.partitions, error)
        assert metadata is not None
        held = metadata.partitions if metadata.state is _S.ONGOING else frozenset()
        return {
            partition: ErrorCode.NONE if partition in held else ErrorCode.TRANSACTION_ABORTABLE
            for partition in request.partitions
        }

    # -- the end -----------------------------------------------------------------------------------------------------

    def decide_end(self, request: End, now: Moment) -> Decision[Ended]:
        metadata = self.transactions.get(request.transactional_id)
        if metadata is None:
            return Decision(Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        return ending.decide_end(metadata, request, now)

    def decide_complete(self, request: tuple[str, int, int], now: Moment) -> Decision[bool]:
        """All markers of the transaction of (id, producer id, epoch) are written and committed.

        False when there is no such outcome any more: another completion was faster.
        """
        transactional_id, producer_id, epoch = request
        metadata = self.transactions.get(transactional_id)
        if metadata is None or not metadata.state.is_prepared:
            return Decision(False)
        if (metadata.producer_id, metadata.producer_epoch) != (producer_id, epoch):
            return Decision(False)
        decision = Decision(True)
        decision.records.append(TransactionRecord(transactional_id, ending.complete(metadata, now.wall_ms)))
        return decision

    def prepared_ids(self) -> list[str]:
        """Transactional ids whose markers are still to be written, or to be written again after a crash."""
        return [transactional_id for transactional_id, m in self.transactions.items() if m.state.is_prepared]

    # -- time --------------------------------------------------------------------------------------------------------

    def ongoing_ids(self) -> list[str]:
        """Transactional ids whose transaction can time out."""
        return list(self._ongoing)

    def decide_abort_timed_out(self, ids: Sequence[str], now: Moment) -> Decision[Swept]:
        """Aborts those of these ids whose transaction has lasted too long, as many as one batch holds."""

        def is_over(metadata: TransactionMetadata) -> bool:
            return metadata.state is _S.ONGOING and now.wall_ms > metadata.start_timestamp_ms + metadata.timeout_ms

        return self._sweep(ids, is_over, lambda metadata: ending.fence(metadata, now.wall_ms))

    def decide_expire_ids(self, ids: Sequence[str], now: Moment) -> Decision[Swept]:
        """The same for ids that have not been used for `id_expiration_ms`: they are forgotten."""
        limit_ms = now.wall_ms - self._settings.id_expiration_ms

        def is_over(metadata: TransactionMetadata) -> bool:
            return metadata.update_timestamp_ms <= limit_ms and metadata.state.can_expire

        return self._sweep(ids, is_over, lambda _: None)

    def _sweep(
        self,
        ids: Sequence[str],
        is_over: Callable[[TransactionMetadata], bool],
        end: Callable[[TransactionMetadata], TransactionMetadata | None],
    ) -> Decision[Swept]:
        ended: list[str] = []
        decision = Decision(Swept(ended, len(ids)))
        room = DECISION_BYTES_MAX
        for number, transactional_id in enumerate(ids):
            metadata = self.transactions.get(transactional_id)
            if metadata is None or not is_over(metadata):
                continue
            if room <= 0:
                decision.reply = Swept(ended, number)
                break
            record = TransactionRecord(transactional_id, end(metadata))
            room -= _bytes_at_most(record)
            ended.append(transactional_id)
            decision.records.append(record)
        return decision

    # -- administration ----------------------------------------------------------------------------------------------

    def describe(self, transactional_ids: Sequence[str], _now: Moment) -> Decision[list[TransactionMetadata | None]]:
        return Decision([self.transactions.get(transactional_id) for transactional_id in transactional_ids])

    def list_transactions(self, filters: Filters, now: Moment) -> Decision[list[Listed]]:
        def is_wanted(metadata: TransactionMetadata) -> bool:
            if filters.states and metadata.state.value not in filters.states:
                return False
            if filters.producer_ids and metadata.producer_id not in filters.producer_ids:
                return False
            return filters.longer_than_ms < 0 or now.wall_ms - metadata.start_timestamp_ms > filters.longer_than_ms

        return Decision([Listed(name, metadata) for name, metadata in self.transactions.items() if is_wanted(metadata)])

    # -- the log -----------------------------------------------------------------------------------------------------

    def encode_records(self, records: Sequence[TransactionRecord]) -> list[tuple[bytes, bytes | None]]:
        return [encode_record(record) for record in records]

    def replay(self, record: TransactionRecord, offset: int, producer_id: int) -> None:
        transactional_id, metadata = record
        if metadata is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = metadata
        if metadata is not None and metadata.state is _S.ONGOING:
            self._ongoing[transactional_id] = None
        else:
            self._ongoing.pop(transactional_id, None)

    def replay_records(self, records: Sequence[TransactionRecord], offset: int, producer_id: int) -> None:
        for at, record in enumerate(records, offset):
            self.replay(record, at, producer_id)

    def replay_end_transaction(self, producer_id: int, committed: bool) -> None:
        """Nothing here is written in a transaction."""

    def decide_loaded(self, now: Moment) -> Decision[None]:
        return Decision(None)

    def deadline_ms(self) -> int | None:
        """None: time-outs and expiry are looked for in rounds, which the coordinator begins."""
        return None

    def decide_deadlines(self, now: Moment) -> Decision[None]:
        return Decision(None)

    def decide_unloaded(self) -> Decision[None]:
        return Decision(None)


def _bytes_at_most(record: TransactionRecord) -> int:
    size = RECORD_BYTES_WITHOUT_NAMES_MAX + 4 * len(record.transactional_id)
    return size if record.metadata is None else size + sum(len(topic) + 8 for topic, _ in record.metadata.partitions)


def _initialised(request: Init, metadata: TransactionMetadata) -> Decision[Initialised]:
    decision = Decision(Initialised(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch))
    decision.records.append(TransactionRecord(request.transactional_id, metadata))
    return decision


def _may_continue(metadata: TransactionMetadata, request: Init) -> bool:
    """A producer that names its id must be the current one, or the one whose last epoch led to the current id."""
    if request.producer_id == NO_PRODUCER_ID or request.producer_id == metadata.producer_id:
        return True
    return request.producer_id == metadata.previous_producer_id and is_exhausted(request.producer_epoch)


def _check_producer(metadata: TransactionMetadata | None, request: AddPartitions) -> ErrorCode:
    if metadata is not None and metadata.is_about_to_become(request.producer_id):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata is None or metadata.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != request.producer_epoch or request.producer_epoch == EPOCH_MAX:
        return ErrorCode.PRODUCER_FENCED
    if metadata.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE
