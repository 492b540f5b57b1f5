"""Asks the transaction coordinator on another node whether a write may be part of a transaction."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.api.context import Services
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

TRANSACTIONS = "transactions"
"""The purpose of the connections."""

ANSWER_SECONDS_MAX = 10.0


async def ask_coordinator(
    services: Services, request: AddPartitions, *, adds: bool
) -> Mapping[TopicPartition, ErrorCode]:
    """A code per partition; COORDINATOR_NOT_AVAILABLE, which producers retry, when nobody answers."""
    try:
        index = await services.transactions.partition_of(request.transactional_id)
    except BrokerError as error:
        return dict.fromkeys(request.partitions, error.code)
    topic = services.metadata.image.topics.get(TRANSACTIONS_TOPIC)
    state = None if topic is None else topic.partitions.get(index)
    if state is None or state.leader < 0 or state.leader == services.node_id:
        return dict.fromkeys(request.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    topics: dict[str, list[int]] = {}
    for partition in request.partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    message = AddPartitionsToTxnRequest(
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
    try:
        response = await services.channel.pool.client(state.leader, TRANSACTIONS).call(
            message, AddPartitionsToTxnResponse, timeout_s=ANSWER_SECONDS_MAX
        )
    except RpcError:
        return dict.fromkeys(request.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    codes = dict.fromkeys(request.partitions, ErrorCode(response.error_code) or ErrorCode.COORDINATOR_NOT_AVAILABLE)
    for transaction in response.results_by_transaction:
        for answered in transaction.topic_results:
            for found in answered.results_by_partition:
                partition = TopicPartition(answered.name, found.partition_index)
                codes[partition] = ErrorCode(found.partition_error_code)
    return codes
