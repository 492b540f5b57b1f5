"""A transactional producer made of bare requests, so that a test can send what no client would."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tests.servers.topics import new_name
from tests.servers.wire import Connection, NewRecord, build_batch
from tests.waiting import wait_until

from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.protocol.generated.describe_transactions import DescribeTransactionsRequest
from tidelog.protocol.generated.end_txn import EndTxnRequest
from tidelog.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.generated.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.generated.init_producer_id import InitProducerIdRequest
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.records.batch import iterate_headers
from tidelog.records.record import iterate_records

TRANSACTIONAL = 0x10
OLDER_FLOW = {"add": 3, "offsets": 3, "commit_offsets": 3, "end": 3, "produce": 11, "init": 5}
VERSION_2 = {"commit_offsets": 5, "end": 5, "produce": 12, "init": 5}
RETRIABLE = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class WireProducer:
    """Knows its id, epoch and sequences; each call returns the error code, and retries only where it says so."""

    def __init__(self, connection: Connection, transactional_id: str | None = None) -> None:
        self.connection = connection
        self.transactional_id = transactional_id or new_name("txn")
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int, int], itertools.count[int]] = {}

    def init(self, timeout_ms: int = 60_000, version: int = 5, *, expects: bool = False) -> int:
        """With `expects`, as a producer that has an id and epoch already (KIP-360)."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms)
        if expects:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        answer = settle(lambda: self.connection.call(request, version), lambda answer: answer.error_code)
        if answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def started(self, timeout_ms: int = 60_000) -> WireProducer:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id])
        wait_until(lambda: self.connection.call(find, 4).coordinators[0].error_code == 0, "there is a coordinator")
        assert self.init(timeout_ms) == 0
        return self

    def add(self, topic: str, *partitions: int, version: int = 3) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))],
        )
        return settle(
            lambda: in_order(
                self.connection.call(request, version).results_by_topic_v3_and_below[0].results_by_partition
            ),
            lambda codes: codes[0],
        )

    def add_between_nodes(self, topic: str, *partitions: int, version: int = 5, verify_only: bool = False) -> list[int]:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = self.connection.call(AddPartitionsToTxnRequest(transactions=[transaction]), version)
        assert answer.error_code == 0
        [result] = answer.results_by_transaction
        assert result.transactional_id == self.transactional_id
        [answered] = result.topic_results
        return in_order(answered.results_by_partition)

    def add_offsets(self, group: str, version: int = 3) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return settle(lambda: int(self.connection.call(request, version).error_code), lambda code: code)

    def commit_offset(self, group: str, topic: str, offset: int, version: int = 3, **member: Any) -> int:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
            **member,
        )
        return settle(
            lambda: int(self.connection.call(request, version).topics[0].partitions[0].error_code), lambda code: code
        )

    def produce(self, topic: str, *values: bytes, partition: int = 0, version: int = 11, **batch: Any) -> int:
        """One transactional batch; named arguments of `build_batch` replace what would be right."""
        key = (topic, partition, self.epoch)
        counter = self._sequences.setdefault(key, itertools.count())
        options: dict[str, Any] = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "attributes": TRANSACTIONAL,
            **batch,
        }
        transactional_id = options.pop("transactional_id", self.transactional_id)
        sequence = next(counter) if "base_sequence" not in batch else -1
        for _ in values[1:]:
            next(counter)
        options.setdefault("base_sequence", sequence)
        records = build_batch([NewRecord(value) for value in values], **options)
        data = TopicProduceData(partition_data=[PartitionProduceData(index=partition, records=records)])
        if version >= 13:
            data.topic_id = topic_id(self.connection, topic)
        else:
            data.name = topic
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=[data])
        return settle(
            lambda: int(self.connection.call(request, version).responses[0].partition_responses[0].error_code),
            lambda code: code,
        )

    def end(self, *, commit: bool, version: int = 3) -> int:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = self.connection.call(request, version)
        if answer.error_code == 0 and version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return int(answer.error_code)

    def end_settled(self, *, commit: bool, version: int = 3) -> int:
        """The same, asked again while the coordinator is at work on the transaction before."""
        return settle(lambda: self.end(commit=commit, version=version), lambda code: code)

    def describe(self) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        return self.connection.call(request, 0).transaction_states[0]

    def wait_for(self, state: str) -> Any:
        wait_until(lambda: self.describe().transaction_state == state, f"{self.transactional_id} is {state}", 60)
        return self.describe()


def in_order(results: Sequence[Any]) -> list[int]:
    """Error codes by partition; Kafka answers in an order of its own."""
    return [result.partition_error_code for result in sorted(results, key=lambda result: result.partition_index)]


def new_group(connection: Connection) -> str:
    """The name of a group whose coordinator is there."""
    group = new_name("group")
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    wait_until(lambda: connection.call(find, 4).coordinators[0].error_code == 0, "there is a coordinator")
    return group


def settle(ask: Callable[[], Any], code: Callable[[Any], int]) -> Any:
    """Asks until the answer is more than "come back"; Kafka says that where Tidelog has already done it."""
    answers: list[Any] = []

    def is_settled() -> bool:
        answers.append(ask())
        return code(answers[-1]) not in RETRIABLE

    wait_until(is_settled, "the coordinator has settled", 60)
    return answers[-1]


def topic_id(connection: Connection, topic: str) -> bytes:
    [described] = connection.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics
    return bytes(described.topic_id)


def fetch(connection: Connection, topic: str, *, committed: bool, partition: int = 0) -> Any:
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    [answer] = connection.call(request, 11).responses[0].partitions
    assert answer.error_code == 0
    return answer


def read(connection: Connection, topic: str, *, committed: bool = True, partition: int = 0) -> list[bytes]:
    """What a consumer would see: control batches left out, and the aborted ones when it reads committed data."""
    answer = fetch(connection, topic, committed=committed, partition=partition)
    data = bytes(answer.records or b"")
    aborted = sorted((entry.first_offset, entry.producer_id) for entry in answer.aborted_transactions or ())
    in_abort: set[int] = set()
    values: list[bytes] = []
    for position, header in iterate_headers(data):
        while aborted and aborted[0][0] <= header.last_offset:
            in_abort.add(aborted.pop(0)[1])
        batch = data[position : position + header.size_in_bytes]
        if header.is_control:
            in_abort.discard(header.producer_id)
        elif not (committed and header.is_transactional and header.producer_id in in_abort):
            values += [record.value or b"" for record in iterate_records(batch)]
    return values


def committed_offset(connection: Connection, group: str, topic: str, *, stable: bool = False) -> tuple[int, int]:
    """Error code and offset."""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
            )
        ],
        require_stable=stable,
    )
    answers = settle(lambda: connection.call(request, 8).groups[0], lambda answer: answer.error_code)
    [partition] = answers.topics[0].partitions
    return partition.error_code, partition.committed_offset
