"""Clients of coordinators: offsets of groups that are committed and asked for, and transactions over two partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.cluster.clients import TIMESTAMP_MS, TOPIC, Client
from tests.simulation.coordination_observations import (
    GroupAudited,
    OffsetCommitted,
    OffsetFetched,
    TransactionEnded,
    TransactionsSeen,
)

from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.generated.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.generated.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.generated.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from tidelog.records.batch import iterate_headers
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import iterate_records

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import SimulatedCluster

GROUP, TRANSACTION = 0, 1
IMPLICIT_PARTITIONS = 12
"""The version of Produce from which a transactional write brings its partition into the transaction."""
NEW_EPOCH = 5
"""The version of EndTxn from which every transaction has an epoch of its own."""
TRY_AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)


class CoordinatedClient(Client):
    async def coordinator_of(self, key: str, kind: int) -> int:
        """As some node knows it; -1 when it knows none."""
        answer = await self.call(
            self.anyone(), FindCoordinatorRequest(key=key, key_type=kind), FindCoordinatorResponse, 3
        )
        if answer is None or answer.error_code:
            await self.pause()
            return -1
        return answer.node_id


class OffsetCommitter(CoordinatedClient):
    """Each group commits one offset, again and again until it is acknowledged; in the end it must still be there."""

    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        super().__init__(cluster, number)
        self.groups: list[str] = []

    async def live(self) -> None:
        while not self.is_stopping:
            group, offset = f"group-{len(self.groups)}", 10 * len(self.groups) + 7
            self.waits_for = group
            await self._commit(group, offset)
            self.world.observe(OffsetCommitted(group, offset))
            self.groups.append(group)
            await self.pause()
            await self.pause()

    async def _commit(self, group: str, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
        )
        while True:
            node_id = await self.coordinator_of(group, GROUP)
            answer = None if node_id < 0 else await self.call(node_id, request, OffsetCommitResponse, 8)
            if answer is not None:
                if not (code := answer.topics[0].partitions[0].error_code):
                    return
                self.world.note(self.process, f"commit refused with {ErrorCode(code).name}")
                await self.pause()


class TransactionalProducer(CoordinatedClient):
    """One transaction after the other, each writing one record to every partition, most committed, some aborted."""

    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        super().__init__(cluster, number)
        self.transactional_id = f"transactional-{number}"
        self.producer_id = -1
        self.epoch = -1
        self.committed = 0

    async def live(self) -> None:
        number = 0
        while not self.is_stopping:
            if self.epoch < 0:
                await self.start_epoch()
            number += 1
            values = {
                index: f"{self.transactional_id}:{number}:{index}".encode() for index in range(self.cluster.partitions)
            }
            self.waits_for = values[0]
            for index, value in values.items():
                if self.epoch >= 0 and not await self.write(index, value):
                    self.epoch = -1
            if self.epoch < 0:
                # A new epoch aborts what is open.
                self.world.observe(TransactionEnded(values, False))
                continue
            commits = self.world.random.random() < 0.75 and self.may_commit
            is_ended = await self.end(commits)
            self.committed += commits and is_ended
            self.world.observe(TransactionEnded(values, commits if is_ended else (None if commits else False)))
            await self.pause()
        if self.epoch < 0:
            # As an application does whose producer was fenced: what it left open would wait for its time-out.
            await self.start_epoch()

    @property
    def may_commit(self) -> bool:
        """Whether it thinks that everything was written."""
        return True

    async def start_epoch(self) -> None:
        while True:
            node_id = await self.coordinator_of(self.transactional_id, TRANSACTION)
            request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=20_000)
            answer = None if node_id < 0 else await self.call(node_id, request, InitProducerIdResponse, 4)
            if answer is not None and not answer.error_code:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                return
            await self.pause()

    async def write(self, index: int, value: bytes) -> bool:
        """Whether the record is in the transaction."""
        batch = build_batch(
            [NewRecord(None, value, TIMESTAMP_MS)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        while True:
            leader = await self.leader_of(index)
            answer = (
                None
                if leader < 0
                else await self.produce(leader, index, batch, self.transactional_id, IMPLICIT_PARTITIONS)
            )
            if answer is not None:
                if not answer.error_code:
                    return True
                if answer.error_code not in TRY_AGAIN:
                    self.world.note(self.process, f"cannot write: {ErrorCode(answer.error_code).name}")
                    return False
                await self.pause()

    async def end(self, commits: bool) -> bool:
        """Whether it ended so; otherwise its end is not known."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commits,
        )
        while True:
            node_id = await self.coordinator_of(self.transactional_id, TRANSACTION)
            answer = None if node_id < 0 else await self.call(node_id, request, EndTxnResponse, NEW_EPOCH)
            if answer is None:
                continue
            if not answer.error_code:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                return True
            if answer.error_code not in TRY_AGAIN:
                self.world.note(self.process, f"cannot end: {ErrorCode(answer.error_code).name}")
                self.epoch = -1
                return False
            await self.pause()


class Auditor(CoordinatedClient):
    """Asks for everything that is committed, once faults are over."""

    def __init__(self, cluster: SimulatedCluster, number: int, groups: list[str], member_groups: list[str]) -> None:
        """`groups` have one offset each, committed without a member; `member_groups` have, or had, members."""
        super().__init__(cluster, number)
        self._groups = groups
        self._member_groups = member_groups

    async def live(self) -> None:
        for group in self._groups:
            self.world.observe(OffsetFetched(group, await self._ask(group, 0)))
        for group in self._member_groups:
            for index in range(self.cluster.partitions):
                self.world.observe(GroupAudited(group, index, await self._ask(group, index)))
        values = {index: await self._read_all(index) for index in range(self.cluster.partitions)}
        self.world.observe(TransactionsSeen(values))

    async def _ask(self, group: str, index: int) -> int:
        topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[index])
        while True:
            node_id = await self.coordinator_of(group, GROUP)
            request = OffsetFetchRequest(group_id=group, topics=[topic])
            answer = None if node_id < 0 else await self.call(node_id, request, OffsetFetchResponse, 6)
            if answer is not None and not answer.error_code:
                found = answer.topics[0].partitions[0]
                if not found.error_code:
                    return found.committed_offset
            await self.pause()

    async def _read_all(self, index: int) -> frozenset[bytes]:
        while True:
            leader = await self.leader_of(index)
            asked = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 24)
            request = FetchRequest(
                max_bytes=1 << 24, isolation_level=1, topics=[FetchTopic(topic=TOPIC, partitions=[asked])]
            )
            answer = None if leader < 0 else await self.call(leader, request, FetchResponse, 12)
            if answer is not None and answer.responses:
                found = answer.responses[0].partitions[0]
                if not found.error_code and found.last_stable_offset == found.high_watermark:
                    return _committed_values(found)
            await self.pause()


def _committed_values(found: PartitionData) -> frozenset[bytes]:
    """As a consumer with isolation.level=read_committed takes it."""
    data = bytes(found.records or b"")
    aborted = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
    aborting: set[int] = set()
    values = set()
    for position, header in iterate_headers(data):
        batch = data[position : position + header.size_in_bytes]
        while aborted and aborted[0][0] <= header.last_offset:
            aborting.add(aborted.pop(0)[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            values.update(bytes(record.value or b"") for record in iterate_records(batch))
    return frozenset(values)
