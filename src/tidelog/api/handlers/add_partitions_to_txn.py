"""AddPartitionsToTxn: partitions a transaction is about to write to; several transactions from version 4 on.

Up to version 3 producers ask; later versions are for nodes among themselves, which may also only verify.
"""

from __future__ import annotations

from tidelog.api.authorization import NONE_DENIED, authorize, denied
from tidelog.api.context import RequestContext
from tidelog.api.fencing import fenced_code
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.model.access import CLUSTER, Operation, Resource, ResourceType
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from tidelog.transactions.core.messages import AddPartitions

FIRST_VERSION_WITH_TRANSACTIONS = 4
FIRST_VERSION_WITH_FENCED = 2

Codes = dict[TopicPartition, ErrorCode]


async def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    if context.version < FIRST_VERSION_WITH_TRANSACTIONS:
        topics = request.v3_and_below_topics
        asked = AddPartitions(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            _partitions(topics),
        )
        codes = await _add(context, asked, verify_only=False)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, codes))
    if not authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
        raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results = []
    for transaction in request.transactions:
        asked = AddPartitions(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            _partitions(transaction.topics),
        )
        codes = await _add(context, asked, verify_only=transaction.verify_only)
        results.append(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=_results(transaction.topics, codes)
            )
        )
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _add(context: RequestContext, asked: AddPartitions, *, verify_only: bool) -> Codes:
    is_from_client = context.version < FIRST_VERSION_WITH_TRANSACTIONS
    if is_from_client and not authorize(
        context, Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, asked.transactional_id)
    ):
        return dict.fromkeys(asked.partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not asked.transactional_id:
        return dict.fromkeys(asked.partitions, ErrorCode.INVALID_REQUEST)
    refused = _refuse(context, asked, is_from_client)
    if refused:
        return {partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in asked.partitions}
    transactions = context.services.transactions
    try:
        if verify_only:
            return transactions.verify_partitions(asked)
        code = await transactions.add_partitions(asked)
    except BrokerError as error:
        code = error.code
    code = fenced_code(code, context.version, FIRST_VERSION_WITH_FENCED)
    return dict.fromkeys(asked.partitions, code)


def _refuse(context: RequestContext, asked: AddPartitions, is_from_client: bool) -> Codes:
    """Partitions that cannot be in a transaction: one of them, and none is added."""
    topics = context.services.metadata.image.topics
    forbidden = NONE_DENIED
    if is_from_client:
        names = (partition.topic for partition in asked.partitions)
        forbidden = denied(context, Operation.WRITE, ResourceType.TOPIC, names)
    refused: Codes = {}
    for partition in asked.partitions:
        if partition.topic in forbidden or (is_from_client and partition.topic in INTERNAL_TOPICS):
            refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif partition.topic not in topics or partition.partition not in topics[partition.topic].partitions:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _results(topics: list[AddPartitionsToTxnTopic], codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
