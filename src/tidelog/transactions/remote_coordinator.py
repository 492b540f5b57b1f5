"""Asks the transaction coordinator on another node whether a write may be part of a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.coordination.partitioning import TRANSACTIONS_TOPIC
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.net.client.errors import RpcError
from tidelog.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.transactions.core.messages import AddPartitions

if TYPE_CHECKING:
    from tidelog.metadata.publisher import MetadataPublisher
    from tidelog.net.client.pool import RpcPool
    from tidelog.transactions.coordinator import TransactionCoordinator

TRANSACTIONS = "transactions"
"""The purpose of the connections."""

ANSWER_SECONDS_MAX = 10.0


class RemoteCoordinator:
    """The way to it. Coordinators of this node are not asked over the network."""

    def __init__(
        self, coordinator: TransactionCoordinator, metadata: MetadataPublisher, node_id: int, pool: RpcPool
    ) -> None:
        self._coordinator = coordinator
        self._metadata = metadata
        self._node_id = node_id
        self._pool = pool

    async def ask(self, request: AddPartitions, *, adds: bool) -> Mapping[TopicPartition, ErrorCode]:
        """A code per partition; COORDINATOR_NOT_AVAILABLE, which producers retry, when no coordinator answers."""
        try:
            index = await self._coordinator.partition_of(request.transactional_id)
        except BrokerError as error:
            return dict.fromkeys(request.partitions, error.code)
        topic = self._metadata.image.topics.get(TRANSACTIONS_TOPIC)
        state = None if topic is None else topic.partitions.get(index)
        if state is None or state.leader < 0 or state.leader == self._node_id:
            return dict.fromkeys(request.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            response = await self._pool.client(state.leader, TRANSACTIONS).call(
                _encode(request, adds=adds), AddPartitionsToTxnResponse, timeout_s=ANSWER_SECONDS_MAX
            )
        except RpcError:
            return dict.fromkeys(request.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return _codes(request, response)


def _encode(request: AddPartitions, *, adds: bool) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for partition in request.partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                verify_only=not adds,
                topics=[AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in topics.items()],
            )
        ]
    )


def _codes(request: AddPartitions, response: AddPartitionsToTxnResponse) -> Mapping[TopicPartition, ErrorCode]:
    codes = dict.fromkeys(request.partitions, ErrorCode(response.error_code) or ErrorCode.COORDINATOR_NOT_AVAILABLE)
    for transaction in response.results_by_transaction:
        for answered in transaction.topic_results:
            for found in answered.results_by_partition:
                partition = TopicPartition(answered.name, found.partition_index)
                codes[partition] = ErrorCode(found.partition_error_code)
    return codes
