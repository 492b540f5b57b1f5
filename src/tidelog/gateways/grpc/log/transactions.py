"""Transactions of `tidelog.v1.Log`. The client keeps the producer's id, epoch and sequences, so any node answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.coordinator import NO_MEMBER, TRANSACTION, AsMember, CoordinatorAccess
from tidelog.gateways.grpc.generated.tidelog_pb2 import (
    CommitOffsetsInTransactionResponse,
    EndTransactionResponse,
    InitProducerResponse,
)
from tidelog.gateways.grpc.status import invalid
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.generated.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.generated.tidelog_pb2 import (
        CommitOffsetsInTransactionRequest,
        EndTransactionRequest,
        InitProducerRequest,
    )
    from tidelog.gateways.grpc.shared import Shared

TRANSACTION_TIMEOUT_MS: Final = 60_000
EPOCH_MAX: Final = 32767
PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""While the transaction before is being ended."""


class TransactionMethods:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def init_producer(self, access: LogAccess, request: InitProducerRequest) -> InitProducerResponse:
        if request.transaction_timeout_ms < 0:
            raise invalid("transaction_timeout_ms is a positive number, or 0 for 60000.")
        asked = InitProducerIdRequest(
            transactional_id=request.transactional_id or None,
            transaction_timeout_ms=request.transaction_timeout_ms or TRANSACTION_TIMEOUT_MS,
        )
        response: InitProducerIdResponse
        if request.transactional_id:
            coordinator = CoordinatorAccess(access, request.transactional_id, TRANSACTION)
            response = await _settled(coordinator, int(ApiKey.INIT_PRODUCER_ID), asked, _error_field)
        else:
            response = await access.ask(int(ApiKey.INIT_PRODUCER_ID), asked)
            if response.error_code:
                raise BrokerError(ErrorCode(response.error_code))
        return InitProducerResponse(producer_id=response.producer_id, producer_epoch=response.producer_epoch)

    async def commit_offsets_in_transaction(
        self, access: LogAccess, request: CommitOffsetsInTransactionRequest
    ) -> CommitOffsetsInTransactionResponse:
        """As the member of the group that this node speaks for, if it does."""
        _check_producer(request)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        names: set[AsMember] = set()
        for each in request.offsets:
            if each.offset < 0:
                raise invalid(f"An offset to commit is not negative: {each.offset}.")
            owner = self._shared.held.owner(request.group_id, each.topic, each.partition)
            names.add(NO_MEMBER if owner is None else owner.name)
            topics.setdefault(each.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=each.partition, committed_offset=each.offset, committed_metadata=each.metadata
                )
            )
        if len(names) != 1:
            raise invalid("The offsets of one call are at least one, and of one member of the group.")
        [name] = names
        asked = TxnOffsetCommitRequest(
            transactional_id=request.transactional_id,
            group_id=request.group_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            generation_id=name.epoch,
            member_id=name.member_id,
            group_instance_id=name.instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=each) for topic, each in topics.items()],
        )
        await _settled(CoordinatorAccess(access, request.group_id), int(ApiKey.TXN_OFFSET_COMMIT), asked, _first_error)
        return CommitOffsetsInTransactionResponse()

    async def end_transaction(self, access: LogAccess, request: EndTransactionRequest) -> EndTransactionResponse:
        _check_producer(request)
        asked = EndTxnRequest(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            committed=request.commit,
        )
        coordinator = CoordinatorAccess(access, request.transactional_id, TRANSACTION)
        response: EndTxnResponse = await _settled(coordinator, int(ApiKey.END_TXN), asked, _error_field)
        return EndTransactionResponse(producer_id=response.producer_id, producer_epoch=response.producer_epoch)


def _check_producer(request: CommitOffsetsInTransactionRequest | EndTransactionRequest) -> None:
    if not request.transactional_id:
        raise invalid("A transaction has the transactional id that InitProducer was given.")
    if not 0 <= request.producer_epoch <= EPOCH_MAX:
        raise invalid("producer_epoch is that of InitProducer, or of the last EndTransaction.")


async def _settled(coordinator: CoordinatorAccess, api_key: int, request: Any, error_of: Callable[[Any], int]) -> Any:
    """The coordinator's response without an error. A transaction that is just being ended is waited for."""
    pauses = iter(PAUSES_S)
    while True:
        response = await coordinator.ask(api_key, request, error_of)
        code = ErrorCode(error_of(response))
        if not code:
            return response
        pause_s = next(pauses, None)
        if code != ErrorCode.CONCURRENT_TRANSACTIONS or pause_s is None:
            raise BrokerError(code)
        await asyncio.sleep(pause_s)


def _error_field(response: InitProducerIdResponse | EndTxnResponse) -> int:
    return response.error_code


def _first_error(response: TxnOffsetCommitResponse) -> int:
    return next((each.error_code for topic in response.topics for each in topic.partitions if each.error_code), 0)
