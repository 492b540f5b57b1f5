"""How a transaction ends: which producer may end it, with which epoch, and what a repeated request is answered.

The older flow keeps the epoch, so a late EndTxn of one transaction looks like the EndTxn of the next. Transaction
version 2 (KIP-890) gives the producer a new epoch with every end: a repeated request names the epoch before the
current one and is recognised, anything older is fenced.
"""

from __future__ import annotations

from tidelog.coordination.decision import Decision, Moment
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_ID
from tidelog.transactions.core.messages import End, Ended
from tidelog.transactions.core.metadata import EPOCH_MAX, TransactionMetadata
from tidelog.transactions.core.records import TransactionRecord
from tidelog.transactions.core.state import TransactionState

_S = TransactionState
_COMPLETE_OF = {True: _S.COMPLETE_COMMIT, False: _S.COMPLETE_ABORT}
_PREPARE_OF = {True: _S.PREPARE_COMMIT, False: _S.PREPARE_ABORT}


def decide_end(metadata: TransactionMetadata, request: End, now: Moment) -> Decision[Ended]:
    return _decide_moving(metadata, request, now) if request.moves_epoch else _decide_keeping(metadata, request, now)


def fence(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Aborts an ongoing transaction under an epoch its producer does not have.

    The producer may still ask for that epoch, by InitProducerId or by an end of version 2, unless another one has
    started.
    """
    # No producer holds the last epoch, but a log written by another broker may say so; that transaction must end too.
    epoch = min(metadata.producer_epoch + 1, EPOCH_MAX)
    fenced = metadata.transition(
        _S.PREPARE_EPOCH_FENCE,
        now_ms,
        producer_epoch=epoch,
        last_producer_epoch=metadata.producer_epoch,
        client_version=2 if epoch > metadata.producer_epoch else 0,
    )
    return fenced.transition(_S.PREPARE_ABORT, now_ms)


def complete(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    state = _COMPLETE_OF[metadata.state is _S.PREPARE_COMMIT]
    if metadata.next_producer_id == NO_PRODUCER_ID:
        return metadata.transition(state, now_ms, partitions=frozenset())
    return metadata.transition(
        state,
        now_ms,
        partitions=frozenset(),
        producer_id=metadata.next_producer_id,
        producer_epoch=0,
    )


def _decide_keeping(metadata: TransactionMetadata, request: End, now: Moment) -> Decision[Ended]:
    """The older flow."""
    if metadata.producer_id != request.producer_id:
        return Decision(Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    if metadata.producer_epoch != request.producer_epoch:
        return Decision(Ended(ErrorCode.PRODUCER_FENCED))
    if metadata.state is _S.ONGOING:
        return _prepared(request, metadata.transition(_PREPARE_OF[request.commit], now.wall_ms, client_version=0))
    return Decision(_repeated(metadata, request))


def _decide_moving(metadata: TransactionMetadata, request: End, now: Moment) -> Decision[Ended]:
    """Transaction version 2."""
    ran_out = (
        metadata.previous_producer_id == request.producer_id
        and request.producer_epoch == EPOCH_MAX - 1
        and metadata.producer_epoch == 0
    )
    # The last epoch is never given out: a producer may neither go on with it nor get it in a response.
    is_last = metadata.producer_epoch == EPOCH_MAX
    is_repeated = ran_out or (metadata.producer_epoch == request.producer_epoch + 1 and not is_last)
    is_current = metadata.producer_epoch == request.producer_epoch and not is_last
    if metadata.is_about_to_become(request.producer_id):
        return Decision(Ended(ErrorCode.CONCURRENT_TRANSACTIONS))
    if metadata.producer_id != request.producer_id and not ran_out:
        return Decision(Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    if metadata.state.is_prepared:
        allowed = metadata.producer_epoch == request.producer_epoch + 1
    elif metadata.state in (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT):
        allowed = is_repeated or is_current
    else:
        allowed = is_current
    if not allowed:
        return Decision(Ended(ErrorCode.PRODUCER_FENCED))
    if metadata.state.is_prepared or (is_repeated and metadata.state is not _S.ONGOING):
        return Decision(_repeated(metadata, request))
    if metadata.state is not _S.ONGOING and request.commit:
        return Decision(Ended(ErrorCode.INVALID_TXN_STATE))
    next_producer_id: int = NO_PRODUCER_ID
    if metadata.is_epoch_exhausted:
        next_producer_id = request.fresh_producer_id
        if next_producer_id == NO_PRODUCER_ID:
            return Decision(Ended(ErrorCode.NONE, needs_producer_id=True))
    is_begun = metadata.state is _S.ONGOING
    moved = metadata.transition(
        _PREPARE_OF[request.commit],
        now.wall_ms,
        producer_epoch=metadata.producer_epoch + 1,
        last_producer_epoch=metadata.producer_epoch,
        next_producer_id=next_producer_id,
        client_version=2,
        partitions=metadata.partitions if is_begun else frozenset(),
        start_timestamp_ms=metadata.start_timestamp_ms if is_begun else now.wall_ms,
    )
    return _prepared(request, moved)


def _prepared(request: End, metadata: TransactionMetadata) -> Decision[Ended]:
    if metadata.next_producer_id != NO_PRODUCER_ID:
        reply = Ended(ErrorCode.NONE, metadata.next_producer_id, 0, prepared=True)
    else:
        reply = Ended(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch, prepared=True)
    decision = Decision(reply)
    decision.records.append(TransactionRecord(request.transactional_id, metadata))
    return decision


def _repeated(metadata: TransactionMetadata, request: End) -> Ended:
    """The answer to an end that has happened, or is happening: the same outcome is fine, the other is not."""
    if metadata.state is _COMPLETE_OF[request.commit]:
        return Ended(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch)
    if metadata.state is _PREPARE_OF[request.commit]:
        return Ended(ErrorCode.CONCURRENT_TRANSACTIONS)
    return Ended(ErrorCode.INVALID_TXN_STATE)
