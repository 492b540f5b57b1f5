"""What the coordinator knows of one transactional id; a value, replaced as a whole by every record."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from tidelog.transactions.core.state import TRANSITIONS, TransactionState

EPOCH_MAX: Final = 2**15 - 1
"""The last epoch is kept back, so that there is always one left to fence a producer with."""
NO_TIMESTAMP: Final = -1

Partitions = frozenset[TopicPartition]


class TransactionMetadata(NamedTuple):
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: Partitions
    start_timestamp_ms: int
    """When the first partition was added; -1 without a transaction."""
    update_timestamp_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before the latest change of state: a retry may still name it when the epochs of that id ran out."""
    next_producer_id: int = NO_PRODUCER_ID
    """Takes over when the transaction that used up the last epoch is complete."""
    client_version: int = 0
    """2 when the transaction was ended under an epoch of its own, as transaction version 2 does, otherwise 0."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the current one, if the same producer got both. Not in the log: a producer that repeats
    InitProducerId after a failover is fenced, as with Kafka."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    def is_about_to_become(self, producer_id: int) -> bool:
        """Whether the producer has this id already while its markers under the old one are still being written."""
        return self.next_producer_id == producer_id != NO_PRODUCER_ID

    def transition(self, state: TransactionState, now_ms: int, **changes: Any) -> TransactionMetadata:
        assert state in TRANSITIONS[self.state], f"a transaction cannot go from {self.state} to {state}"
        changes.setdefault("previous_producer_id", self.producer_id)
        changes.setdefault("next_producer_id", NO_PRODUCER_ID)
        return self._replace(state=state, update_timestamp_ms=now_ms, **changes)


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1
