"""What is asked before a write becomes part of a transaction, with the coordinator here or on another node."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.control import EndTransactionMarker
from tidelog.storage.producer_state import ProducerState
from tidelog.transactions.core.messages import AddPartitions
from tidelog.transactions.writes import TransactionalWrites, produce_error

pytestmark = pytest.mark.anyio

ID = "orders"
PRODUCER_ID = 7
TARGET = TopicPartition("t", 0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Elsewhere:
    """The coordinator of a node that does not coordinate the transaction."""

    settings = SimpleNamespace(verifies_partitions=True)

    def is_in_transaction(self, *_: object) -> bool:
        return False

    def submit_partitions(self, _: AddPartitions) -> Any:
        raise BrokerError(ErrorCode.NOT_COORDINATOR)

    verify_partitions = submit_partitions


class Node:
    """A node that leads one partition, as far as these checks look at it."""

    def __init__(self) -> None:
        self.state = ProducerState(86_400_000)
        partition = SimpleNamespace(topic_partition=TARGET, log=SimpleNamespace(producer_state=self.state))
        partitions = SimpleNamespace(
            find_topic=lambda name, _: {0: partition} if name == "t" else None,
            find_partition=lambda topic, index: partition if (topic, index) == TARGET else None,
        )
        self.meanwhile: list[Callable[[], None]] = []
        """What happens here while the coordinator on the other node says yes."""
        self.writes = TransactionalWrites(cast(Any, Elsewhere()), cast(Any, partitions), cast(Any, self))

    async def ask(self, request: AddPartitions, *, adds: bool) -> Mapping[TopicPartition, ErrorCode]:
        """In place of the way to the coordinator on the other node."""
        for happen in self.meanwhile:
            happen()
        return dict.fromkeys(request.partitions, ErrorCode.NONE)

    def write(self, sequence: int) -> None:
        self.state.record_batch(PRODUCER_ID, 0, sequence, sequence, sequence, 0, transactional=True)

    def end(self, epoch: int, offset: int) -> None:
        self.state.record_marker(EndTransactionMarker(PRODUCER_ID, epoch, True, 0, 0, offset), offset)


@pytest.fixture
def node() -> Node:
    return Node()


async def ask(node: Node, *, adds: bool) -> ErrorCode:
    request = AddPartitions(ID, PRODUCER_ID, 0, frozenset({TARGET}))
    answer = node.writes.check(request, adds=adds)
    assert isinstance(answer, Coroutine)
    return (await answer)[TARGET]


async def produce(node: Node, sequence: int, version: int) -> ErrorCode:
    batch = build_batch(
        [NewRecord(None, b"v", 0)],
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    refused = node.writes.check_produce(ID, [("t", None, [(0, memoryview(batch))])], version)
    if isinstance(refused, Coroutine):
        refused = await refused
    return refused[TARGET].code if TARGET in refused else ErrorCode.NONE


@pytest.mark.parametrize("was_known", [False, True])
async def test_a_transaction_that_ends_while_the_coordinator_answers_takes_no_more(node: Node, was_known: bool) -> None:
    if was_known:
        node.write(0)
        node.end(0, 1)
        node.write(1)
    assert await ask(node, adds=False) is ErrorCode.NONE
    node.meanwhile.append(lambda: node.end(0, 5))
    assert await ask(node, adds=False) is ErrorCode.INVALID_TXN_STATE


async def test_the_end_of_the_one_before_does_not_count_under_version_2(node: Node) -> None:
    # The producer has its new epoch before the markers are written; the coordinator says yes when they are.
    node.meanwhile.append(lambda: node.end(0, 5))
    assert await ask(node, adds=True) is ErrorCode.NONE


async def test_a_producer_of_version_2_that_is_not_known_begins_at_0(node: Node) -> None:
    assert await produce(node, 5, version=12) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await produce(node, 0, version=12) is ErrorCode.NONE
    node.write(0)
    assert await produce(node, 5, version=12) is ErrorCode.NONE, "from here on the log knows better"


async def test_in_the_older_flow_it_may_have_been_forgotten(node: Node) -> None:
    assert await produce(node, 5, version=11) is ErrorCode.NONE


def test_partitions_beside_one_that_the_coordinator_does_not_know_are_tried_again() -> None:
    assert produce_error(ErrorCode.OPERATION_NOT_ATTEMPTED, 12).code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 12).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
