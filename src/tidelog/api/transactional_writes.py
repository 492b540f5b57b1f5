"""Whether a write may be part of a transaction: asked of the transaction coordinator before anything is appended.

The older flow has told the coordinator of the partition before (AddPartitionsToTxn, AddOffsetsToTxn) and is only
checked; under transaction version 2 (KIP-890) the first write to a partition adds it. Every write is checked, not
only the first of a transaction: between the decision to end it and its marker, the log still shows it as open.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.api.context import RequestContext, Services
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_MASK,
    decode_header,
)
from tidelog.transactions.core.messages import AddPartitions

if TYPE_CHECKING:
    from tidelog.protocol.hot_produce import ProducedTopic
    from tidelog.transactions.coordinator import TransactionCoordinator

FIRST_PRODUCE_WITH_ABORTABLE = 11
FIRST_PRODUCE_THAT_ADDS = 12

Refusals = Mapping[TopicPartition, BrokerError]
"""Partitions that may not be written to, and what the producer is told."""

_RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def has_transactional_batch(topics: Sequence[ProducedTopic]) -> bool:
    """Whether any batch of a produce says that it belongs to a transaction; nothing of it is checked yet."""
    for _, _, batches in topics:
        for _, records in batches:
            if (
                records is not None
                and len(records) >= HEADER_SIZE
                and records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_MASK
                and records[MAGIC_POSITION] == MAGIC
            ):
                return True
    return False


def check_produce(
    context: RequestContext, transactional_id: str, topics: Sequence[ProducedTopic]
) -> Refusals | Coroutine[Any, Any, Refusals]:
    """Refusals for a produce; a coroutine of them when the coordinator's answer has to wait."""
    transactions = context.services.transactions
    is_in_transaction = transactions.is_in_transaction
    producers: set[tuple[int, int]] = set()
    asked: set[TopicPartition] = set()
    for name, topic_id, batches in topics:
        partitions = context.services.partitions.find_topic(name, topic_id)
        for index, records in batches:
            partition = None if partitions is None else partitions.get(index)
            if partition is None or records is None or len(records) < HEADER_SIZE:
                continue
            try:
                header = decode_header(records)
            except BrokerError:
                # No batch: the append finds the words for it.
                continue
            if not header.is_transactional:
                continue
            producers.add((header.producer_id, header.producer_epoch))
            if not is_in_transaction(
                transactional_id, header.producer_id, header.producer_epoch, partition.topic_partition
            ):
                asked.add(partition.topic_partition)
    if not asked:
        return {}
    if len(producers) > 1:
        mixed = BrokerError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID."
        )
        return dict.fromkeys(asked, mixed)
    ((producer_id, producer_epoch),) = producers
    version = context.version
    adds = version >= FIRST_PRODUCE_THAT_ADDS
    request = AddPartitions(transactional_id, producer_id, producer_epoch, frozenset(asked))
    if not adds and not transactions.settings.verifies_partitions:
        return {}
    answer = check_write(context.services, request, adds=adds)
    if isinstance(answer, Coroutine):
        return _translate_later(answer, version)
    return _translate(answer, version)


def check_write(
    services: Services, request: AddPartitions, *, adds: bool
) -> Mapping[TopicPartition, ErrorCode] | Coroutine[Any, Any, Mapping[TopicPartition, ErrorCode]]:
    """A code per partition, as the coordinator gives it; a coroutine of them when that takes time.

    Whoever gets NONE has to write at once: later the transaction may be another.
    """
    transactions = services.transactions
    try:
        if adds:
            code, commit = transactions.submit_partitions(request)
            if commit is not None or code is ErrorCode.CONCURRENT_TRANSACTIONS:
                return _add(transactions, request, commit)
            if code is not ErrorCode.NONE:
                return dict.fromkeys(request.partitions, code)
        return transactions.verify_partitions(request)
    except BrokerError as error:
        if error.code is ErrorCode.NOT_COORDINATOR:
            return _ask_coordinator(services, request, adds=adds)
        return dict.fromkeys(request.partitions, error.code)


async def _ask_coordinator(
    services: Services, request: AddPartitions, *, adds: bool
) -> Mapping[TopicPartition, ErrorCode]:
    """The same of a coordinator on another node: AddPartitionsToTxn as nodes use it among themselves."""
    from tidelog.api.remote_transactions import ask_coordinator

    return await ask_coordinator(services, request, adds=adds)


async def _add(
    transactions: TransactionCoordinator, request: AddPartitions, commit: Any
) -> Mapping[TopicPartition, ErrorCode]:
    """Waits until the partitions are in the transaction for good: a write that is not known there never ends."""
    try:
        if commit is not None:
            await commit
        code = await transactions.add_partitions(request)
        if code is not ErrorCode.NONE:
            return dict.fromkeys(request.partitions, code)
        return transactions.verify_partitions(request)
    except BrokerError as error:
        return dict.fromkeys(request.partitions, error.code)


async def _translate_later(answer: Coroutine[Any, Any, Mapping[TopicPartition, ErrorCode]], version: int) -> Refusals:
    return _translate(await answer, version)


def _translate(answer: Mapping[TopicPartition, ErrorCode], version: int) -> Refusals:
    return {partition: produce_error(code, version) for partition, code in answer.items() if code is not ErrorCode.NONE}


def produce_error(code: ErrorCode, version: int) -> BrokerError:
    """What producers of this version understand."""
    if code is ErrorCode.PRODUCER_FENCED:
        return BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_PRODUCE_WITH_ABORTABLE:
        return BrokerError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if code in _RETRIABLE and not (code is ErrorCode.CONCURRENT_TRANSACTIONS and version >= FIRST_PRODUCE_THAT_ADDS):
        return BrokerError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return BrokerError(code)
