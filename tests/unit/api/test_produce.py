"""Produce: what the handler refuses by itself, what becomes part of a transaction, and when the answer is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.answering import ask, context_of
from tests.unit.api.permissions import Grants, on_topic
from tests.unit.partitions.small_cluster import TOPIC, TOPIC_ID, SmallBroker, SmallCluster

from tidelog.model.access import Operation
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.net.later import Later
from tidelog.net.reply import CloseConnection
from tidelog.partitions.producing import ProduceRequest, Refusals
from tidelog.protocol.generated import produce as wire
from tidelog.records.builder import NewRecord, build_batch

pytestmark = pytest.mark.anyio

PRODUCE = 0
BY_NAME, BY_ID = 12, 13
PLAIN_BATCH = build_batch([NewRecord(None, b"v", 0)])
TRANSACTIONAL_BATCH = build_batch(
    [NewRecord(None, b"t", 0)], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def request_for(*topics: tuple[str, bytes], acks: int = -1, transactional_id: str | None = None) -> wire.ProduceRequest:
    """One batch into partition 0 of each topic, which version 12 names and version 13 gives by its id."""
    return wire.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            wire.TopicProduceData(
                name=name,
                topic_id=TOPIC_ID if name == TOPIC else b"?" * 16,
                partition_data=[wire.PartitionProduceData(index=0, records=batch)],
            )
            for name, batch in topics
        ],
    )


def codes(response: wire.ProduceResponse) -> list[int]:
    return [partition.error_code for topic in response.responses for partition in topic.partition_responses]


def answer_of(broker: SmallBroker, request: ProduceRequest) -> Any:
    """What the dispatcher gives the door at once."""
    context = context_of(broker.dispatcher.services, PRODUCE, BY_ID)
    route = broker.dispatcher.find_route(PRODUCE)
    assert route is not None
    return broker.dispatcher.answer(route, context, request)


class Checks:
    """Stands for the check of transactional writes; remembers which topics were to be added."""

    def __init__(self, answer: Refusals | Coroutine[Any, Any, Refusals]) -> None:
        self.asked: list[tuple[str, list[str | None]]] = []
        self._answer = answer

    def check_produce(
        self, transactional_id: str, topics: list[Any], version: int
    ) -> Refusals | Coroutine[Any, Any, Refusals]:
        self.asked.append((transactional_id, [name for name, _, _ in topics]))
        return self._answer


async def one_node(cluster: SmallCluster, **services: Any) -> SmallBroker:
    await cluster.start(1)
    for name, part in services.items():
        setattr(cluster.leader.dispatcher.services, name, part)
    return cluster.leader


@pytest.mark.parametrize(
    ("version", "unknown"),
    [(BY_NAME, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (BY_ID, ErrorCode.UNKNOWN_TOPIC_ID)],
)
async def test_each_partition_has_its_own_answer(tmp_path: Path, version: int, unknown: ErrorCode) -> None:
    async with SmallCluster(tmp_path) as cluster:
        broker = await one_node(cluster)
        request = request_for((TOPIC, PLAIN_BATCH), ("missing", PLAIN_BATCH))
        assert codes(await ask(broker.dispatcher.services, request, version)) == [ErrorCode.NONE, unknown]
        assert broker.values() == [b"v"]


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
async def test_a_topic_that_may_not_be_written_is_refused_alone(tmp_path: Path, version: int) -> None:
    async with SmallCluster(tmp_path) as cluster:
        broker = await one_node(cluster, authorizer=Grants(*on_topic("other", Operation.WRITE)))
        request = request_for((TOPIC, PLAIN_BATCH))
        assert codes(await ask(broker.dispatcher.services, request, version)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        assert broker.values() == []


async def test_a_transactional_batch_needs_a_transactional_id(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        broker = await one_node(cluster)
        request = request_for((TOPIC, TRANSACTIONAL_BATCH))
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert codes(await ask(broker.dispatcher.services, request, BY_ID)) == [refused]
        assert broker.values() == []


async def test_what_the_transaction_does_not_allow_is_not_appended(tmp_path: Path) -> None:
    checks = Checks({TopicPartition(TOPIC, 0): BrokerError(ErrorCode.INVALID_TXN_STATE)})
    async with SmallCluster(tmp_path) as cluster:
        broker = await one_node(cluster, transactional_writes=checks)
        request = request_for((TOPIC, TRANSACTIONAL_BATCH), transactional_id="x")
        assert codes(await ask(broker.dispatcher.services, request, BY_NAME)) == [ErrorCode.INVALID_TXN_STATE]
        assert broker.values() == []
        assert checks.asked == [("x", [TOPIC])]


async def test_nothing_is_appended_before_the_coordinator_has_answered(tmp_path: Path) -> None:
    asked: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()

    async def check() -> Refusals:
        return await asked

    async with SmallCluster(tmp_path) as cluster:
        broker = await one_node(cluster, transactional_writes=Checks(check()))
        frame = bytearray(TRANSACTIONAL_BATCH)
        records = memoryview(frame)
        waiting = answer_of(broker, ProduceRequest("x", -1, 10_000, [(None, TOPIC_ID, [(0, records)])]))
        assert isinstance(waiting, Later)
        assert not waiting.overlaps, "a later batch of this producer must not be appended first"
        # The connection reads its next frame into the same buffer.
        frame[:] = bytes(len(frame))
        assert broker.values() == []
        asked.set_result({})
        response = await waiting.wait()
        assert response is not None
        assert not response.has_details
        assert broker.values() == [b"t"]


async def test_an_answer_waits_for_all_replicas_in_sync(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path, replica_lag_time_max_ms=60_000) as cluster:
        await cluster.start(2)
        leader = cluster.leader
        await cluster.brokers[2].replication.stop()
        request = ProduceRequest(None, -1, 10_000, [(None, TOPIC_ID, [(0, PLAIN_BATCH)])])
        waiting = answer_of(leader, request)
        assert isinstance(waiting, Later)
        assert waiting.overlaps, "the batch is in the log: later requests cannot overtake it"
        assert leader.values() == [b"v"]
        assert not waiting.is_settled
        cluster.fence(2)
        response = await waiting.wait()
        assert response is not None
        assert not response.has_details, "the leader is the only replica in sync now"


async def test_without_acknowledgement_only_an_error_is_noticed(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        broker = await one_node(cluster)
        assert answer_of(broker, ProduceRequest(None, 0, 0, [(None, TOPIC_ID, [(0, PLAIN_BATCH)])])) is None
        assert broker.values() == [b"v"]
        with pytest.raises(CloseConnection):
            answer_of(broker, ProduceRequest(None, 0, 0, [(None, b"?" * 16, [(0, PLAIN_BATCH)])]))


@pytest.mark.parametrize("acks", [-2, 2])
async def test_other_acknowledgements_are_refused(tmp_path: Path, acks: int) -> None:
    async with SmallCluster(tmp_path) as cluster:
        broker = await one_node(cluster)
        request = request_for((TOPIC, PLAIN_BATCH), acks=acks)
        assert codes(await ask(broker.dispatcher.services, request, BY_ID)) == [ErrorCode.INVALID_REQUIRED_ACKS]
        assert broker.values() == []
