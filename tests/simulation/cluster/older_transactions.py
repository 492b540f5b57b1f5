"""A transactional producer as clients were before transaction version 2: its epoch stays, sequences go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.cluster.clients import TIMESTAMP_MS, TOPIC
from tests.simulation.cluster.coordinated import TRANSACTION, TRY_AGAIN, TransactionalProducer

from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.records.builder import NewRecord, build_batch

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import SimulatedCluster

ADD_VERSION, PRODUCE_VERSION, END_VERSION = 3, 11, 3
PURGES = 0.15
"""How often an acknowledgement does not reach the producer in time."""


class OlderTransactionalProducer(TransactionalProducer):
    """Now and then it purges a batch that was written, aborts, and uses its sequence again, as librdkafka does."""

    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        super().__init__(cluster, number)
        self._sequences = dict.fromkeys(range(cluster.partitions), 0)
        self._has_purged = False

    @property
    def may_commit(self) -> bool:
        return not self._has_purged

    async def start_epoch(self) -> None:
        await super().start_epoch()
        self._sequences = dict.fromkeys(self._sequences, 0)
        self._has_purged = False

    async def write(self, index: int, value: bytes) -> bool:
        if not await self._add(index):
            return False
        batch = build_batch(
            [NewRecord(None, value, TIMESTAMP_MS)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences[index],
            transactional=True,
        )
        while True:
            leader = await self.leader_of(index)
            answer = (
                None if leader < 0 else await self.produce(leader, index, batch, self.transactional_id, PRODUCE_VERSION)
            )
            if answer is None:
                continue
            if not answer.error_code:
                if self.world.random.random() < PURGES:
                    self._has_purged = True
                else:
                    self._sequences[index] += 1
                return True
            if answer.error_code not in TRY_AGAIN:
                self.world.note(self.process, f"cannot write: {ErrorCode(answer.error_code).name}")
                return False
            await self.pause()

    async def _add(self, index: int) -> bool:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[index])],
        )
        while True:
            node_id = await self.coordinator_of(self.transactional_id, TRANSACTION)
            answer = None if node_id < 0 else await self.call(node_id, request, AddPartitionsToTxnResponse, ADD_VERSION)
            if answer is None:
                continue
            [result] = answer.results_by_topic_v3_and_below[0].results_by_partition
            if not result.partition_error_code:
                return True
            if result.partition_error_code not in TRY_AGAIN:
                self.world.note(self.process, f"cannot add: {ErrorCode(result.partition_error_code).name}")
                return False
            await self.pause()

    async def end(self, commits: bool) -> bool:
        """An end that was sent more than once may arrive late, in the next transaction: that one gets another epoch."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commits,
        )
        sent = 0
        while True:
            node_id = await self.coordinator_of(self.transactional_id, TRANSACTION)
            if node_id < 0:
                continue
            sent += 1
            answer = await self.call(node_id, request, EndTxnResponse, END_VERSION)
            if answer is None:
                continue
            if not answer.error_code:
                self._has_purged = False
                if sent > 1:
                    self.epoch = -1
                return True
            if answer.error_code not in TRY_AGAIN:
                self.world.note(self.process, f"cannot end: {ErrorCode(answer.error_code).name}")
                self.epoch = -1
                return False
            await self.pause()
