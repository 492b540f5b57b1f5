"""Whether a write may be part of a transaction: asked of the transaction coordinator before anything is appended.

The older flow has added the partition at the coordinator before (AddPartitionsToTxn, AddOffsetsToTxn) and is only
checked; under transaction version 2 (KIP-890) the first write to a partition adds it. Every write is checked, not
only the first of a transaction: between the decision to end it and its marker, the log still shows it as open.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.partitions.producing import Refusals
from tidelog.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_MASK,
    decode_header,
)
from tidelog.storage.producer_state import NO_OFFSET
from tidelog.transactions.core.messages import AddPartitions

if TYPE_CHECKING:
    from tidelog.partitions.table import PartitionTable
    from tidelog.protocol.hot_produce import ProducedTopic
    from tidelog.transactions.coordinator import TransactionCoordinator
    from tidelog.transactions.remote_coordinator import RemoteCoordinator

FIRST_PRODUCE_WITH_ABORTABLE = 11
FIRST_PRODUCE_THAT_ADDS = 12


_RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        # Another partition of the produce is of a topic so new that the coordinator has not heard of it.
        ErrorCode.OPERATION_NOT_ATTEMPTED,
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


class TransactionalWrites:
    """Of one node: asks its coordinator, or the one on another node."""

    def __init__(
        self, coordinator: TransactionCoordinator, partitions: PartitionTable, remote: RemoteCoordinator
    ) -> None:
        self._coordinator = coordinator
        self._partitions = partitions
        self._remote = remote

    def check_produce(
        self, transactional_id: str, topics: Sequence[ProducedTopic], version: int
    ) -> Refusals | Coroutine[Any, Any, Refusals]:
        """Refusals for a produce of this version; a coroutine of them when the coordinator's answer has to wait."""
        is_in_transaction = self._coordinator.is_in_transaction
        adds = version >= FIRST_PRODUCE_THAT_ADDS
        refused: dict[TopicPartition, BrokerError] = {}
        producers: set[tuple[int, int]] = set()
        asked: set[TopicPartition] = set()
        for name, topic_id, batches in topics:
            partitions = self._partitions.find_topic(name, topic_id)
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
                if adds and header.base_sequence > 0 and partition.log.producer_state.get(header.producer_id) is None:
                    # Every transaction of version 2 begins at 0: the batch before this one was refused or is late.
                    refused[partition.topic_partition] = BrokerError(
                        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                        f"Producer {header.producer_id} began with sequence {header.base_sequence} instead of 0.",
                    )
                    continue
                producers.add((header.producer_id, header.producer_epoch))
                if not is_in_transaction(
                    transactional_id, header.producer_id, header.producer_epoch, partition.topic_partition
                ):
                    asked.add(partition.topic_partition)
        if not asked:
            return refused
        if len(producers) > 1:
            mixed = BrokerError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID."
            )
            return refused | dict.fromkeys(asked, mixed)
        ((producer_id, producer_epoch),) = producers
        request = AddPartitions(transactional_id, producer_id, producer_epoch, frozenset(asked))
        if not adds and not self._coordinator.settings.verifies_partitions:
            return {}
        answer = self.check(request, adds=adds)
        if isinstance(answer, Coroutine):
            return _translate_later(answer, version, refused)
        return _translate(answer, version, refused)

    def check(
        self, request: AddPartitions, *, adds: bool
    ) -> Mapping[TopicPartition, ErrorCode] | Coroutine[Any, Any, Mapping[TopicPartition, ErrorCode]]:
        """A code per partition, as the coordinator gives it; a coroutine of them when that takes time.

        A caller that gets NONE has to write at once: later the transaction may be another.
        """
        coordinator = self._coordinator
        try:
            if adds:
                code, commit = coordinator.submit_partitions(request)
                if commit is not None or code is ErrorCode.CONCURRENT_TRANSACTIONS:
                    return _add(coordinator, request, commit)
                if code is not ErrorCode.NONE:
                    return dict.fromkeys(request.partitions, code)
            return coordinator.verify_partitions(request)
        except BrokerError as error:
            if error.code is ErrorCode.NOT_COORDINATOR:
                return self._ask_coordinator(request, adds=adds)
            return dict.fromkeys(request.partitions, error.code)

    async def _ask_coordinator(self, request: AddPartitions, *, adds: bool) -> Mapping[TopicPartition, ErrorCode]:
        """The same of a coordinator on another node: AddPartitionsToTxn as nodes use it among themselves.

        Its yes may be older than the end of the transaction. In the older flow the end keeps the epoch, so the log
        would take the late write and it would never end: the marker that came in the meantime tells. Under version 2
        the epoch does.
        """
        if adds:
            return await self._remote.ask(request, adds=True)
        before = self._last_markers(request)
        answer = await self._remote.ask(request, adds=False)
        after = self._last_markers(request)
        return {
            partition: ErrorCode.INVALID_TXN_STATE
            if code is ErrorCode.NONE and before[partition] != after[partition]
            else code
            for partition, code in answer.items()
        }

    def _last_markers(self, request: AddPartitions) -> dict[TopicPartition, int]:
        """Where the producer's transactions ended last, as far as the partitions are here."""
        markers: dict[TopicPartition, int] = {}
        for asked in request.partitions:
            partition = self._partitions.find_partition(*asked)
            entry = None if partition is None else partition.log.producer_state.get(request.producer_id)
            markers[asked] = NO_OFFSET if entry is None else entry.marker_offset
        return markers


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


async def _translate_later(
    answer: Coroutine[Any, Any, Mapping[TopicPartition, ErrorCode]], version: int, refused: Refusals
) -> Refusals:
    return _translate(await answer, version, refused)


def _translate(answer: Mapping[TopicPartition, ErrorCode], version: int, refused: Refusals) -> Refusals:
    """The coordinator's refusals, and those that were certain without it."""
    errors = {
        partition: produce_error(code, version) for partition, code in answer.items() if code is not ErrorCode.NONE
    }
    return {**refused, **errors}


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
