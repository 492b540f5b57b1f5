"""Requests the transaction core understands and the replies it gives: the wire messages without their versions."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from tidelog.transactions.core.metadata import TransactionMetadata


class Init(NamedTuple):
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    """What the producer holds already and wants to go on with (KIP-360); -1 from one that starts."""
    producer_epoch: int = NO_PRODUCER_EPOCH
    fresh_producer_id: int = NO_PRODUCER_ID
    """For the core to use if it needs one; it says so when it does and there is none."""


class Initialised(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    needs_producer_id: bool = False
    """Nothing was decided: call again with a new producer id."""
    prepared: bool = False
    """An open transaction is being aborted first: complete it, then call again."""


class AddPartitions(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class End(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    moves_epoch: bool
    """Transaction version 2: every end gives the producer its next epoch (EndTxn 5 and later)."""
    fresh_producer_id: int = NO_PRODUCER_ID


class Ended(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    """What the producer goes on with."""
    needs_producer_id: bool = False
    prepared: bool = False
    """The outcome is in the log: markers are to be written now."""


class Filters(NamedTuple):
    """For listing; an empty collection lets everything through."""

    states: Collection[str] = ()
    producer_ids: Collection[int] = ()
    longer_than_ms: int = -1


class Listed(NamedTuple):
    transactional_id: str
    metadata: TransactionMetadata


class Swept(NamedTuple):
    """The outcome of a check of some ids."""

    ended: list[str]
    """Transactions and ids whose deadline has passed."""
    looked_at: int
    """How many of the ids, from the first; what the rest needs does not fit into the same batch."""
