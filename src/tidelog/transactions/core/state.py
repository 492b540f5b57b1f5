"""The states of a transactional id and the ways between them.

`transition` in `metadata.py` is the only place that changes a state and refuses what this table does not list. Names
and numbers are Kafka's: the numbers are in the log, the names are what tools show.
"""

from __future__ import annotations

from enum import Enum


class TransactionState(Enum):
    EMPTY = "Empty"
    """A producer is initialised and has no transaction: from InitProducerId until its first partition."""
    ONGOING = "Ongoing"
    """Partitions are in the transaction; records may be written to them. Times out."""
    PREPARE_COMMIT = "PrepareCommit"
    """The outcome is decided and cannot change; commit markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    """The outcome is decided and cannot change; abort markers are being written."""
    COMPLETE_COMMIT = "CompleteCommit"
    """Every partition has its marker; the next transaction may begin."""
    COMPLETE_ABORT = "CompleteAbort"
    """The same for an aborted one."""
    DEAD = "Dead"
    """The id was not used for long and is forgotten: a tombstone in the log."""
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    """On the way from ONGOING to PREPARE_ABORT with a higher epoch, to fence a producer; never in the log."""

    @property
    def number(self) -> int:
        """What stands in the log."""
        return _NUMBERS[self]

    @property
    def is_stored(self) -> bool:
        """Whether it may stand in the log: an id that is dead is a tombstone there."""
        return self is not TransactionState.DEAD and self is not TransactionState.PREPARE_EPOCH_FENCE

    @property
    def is_prepared(self) -> bool:
        return self is TransactionState.PREPARE_COMMIT or self is TransactionState.PREPARE_ABORT

    @property
    def can_expire(self) -> bool:
        return TransactionState.DEAD in TRANSITIONS[self]


_S = TransactionState
_NUMBERS = {state: number for number, state in enumerate(_S)}
BY_NUMBER: tuple[TransactionState, ...] = tuple(_S)

TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.DEAD: frozenset(),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.PREPARE_ABORT}),
}
"""From each state, where it may go. To PREPARE_ABORT without ONGOING: transaction version 2 lets a producer abort a
transaction that has no partition yet, which moves its epoch."""
