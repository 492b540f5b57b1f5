"""What the Kafka listener makes of a frame, over real connections: an answer, or a connection that is closed."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest
from tests.unit.partitions.small_cluster import TOPIC_ID, SmallBroker, SmallCluster
from tests.waiting import eventually

from tidelog.api.codecs.opaque import CODEC
from tidelog.api.kafka_door import KafkaDoor
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.net.client.errors import RpcError
from tidelog.net.client.pipelined import RpcClient
from tidelog.net.reply import CloseConnection
from tidelog.partitions.producing import Producing
from tidelog.protocol.generated.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.generated.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.records.builder import NewRecord, build_batch

if TYPE_CHECKING:
    from tidelog.net.connection import Connection

pytestmark = pytest.mark.anyio

PROMPTLY_S = 20.0
FOREVER_MS = 100_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def fail(*_: object, **__: object) -> NoReturn:
    raise ZeroDivisionError("a fault of this node")


def fetch_that_waits() -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=TOPIC_ID, partitions=[asked])
    return FetchRequest(max_wait_ms=FOREVER_MS, min_bytes=1, max_bytes=1 << 20, topics=[topic])


def produce_for_all(timeout_ms: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=build_batch([NewRecord(None, b"v", 0)]))
    topic = TopicProduceData(topic_id=TOPIC_ID, partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[topic])


def client_of(broker: SmallBroker) -> RpcClient:
    return RpcClient("the node", lambda: ("127.0.0.1", broker.listener.port), client_id="consumer")


@pytest.mark.plain
async def test_a_fault_while_a_fetch_waits_closes_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.leader
        metrics = broker.dispatcher.services.metrics
        consumer = client_of(broker)
        waiting = asyncio.ensure_future(consumer.call(fetch_that_waits(), FetchResponse, timeout_s=PROMPTLY_S))
        await eventually(lambda: metrics.waiting_fetches == 1, "the fetch waits")
        monkeypatch.setattr("tidelog.partitions.fetching.read_partition", fail)
        await broker.produce(b"wakes it")
        with pytest.raises(RpcError, match=r"closed|lost"):
            await waiting
        assert metrics.waiting_fetches == 0
        monkeypatch.undo()
        await broker.produce(b"everyone else is served on")
        consumer.close()


@pytest.mark.plain
async def test_a_fault_while_a_produce_waits_closes_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(2)
        leader = cluster.leader
        [follower] = [broker for broker in cluster.brokers.values() if broker is not leader]
        await follower.replication.stop()
        monkeypatch.setattr(Producing, "_with_leaders", fail)
        producer = client_of(leader)
        with pytest.raises(RpcError, match=r"closed|lost"):
            await producer.call(produce_for_all(100), ProduceResponse, timeout_s=PROMPTLY_S)
        assert leader.dispatcher.services.metrics.waiting_produces == 0
        producer.close()


@pytest.mark.plain
async def test_a_fault_of_a_coroutine_closes_its_connection(tmp_path: Path) -> None:
    async def broken(context: Any, request: Any) -> NoReturn:
        await asyncio.sleep(0)
        fail()

    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.leader
        route = broker.dispatcher.find_route(12)
        assert route is not None
        route.handle, route.is_coroutine = broken, True
        client = client_of(broker)
        with pytest.raises(RpcError, match=r"closed|lost"):
            await client.call(HeartbeatRequest(), HeartbeatResponse, timeout_s=PROMPTLY_S)
        client.close()


async def test_requests_of_one_connection_have_one_caller(tmp_path: Path) -> None:
    callers: list[Any] = []

    def handle(context: Any, request: Any) -> int:
        callers.append(context.caller)
        return 0

    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.leader
        route = broker.dispatcher.find_route(12)
        assert route is not None
        route.handle = handle
        clients = [client_of(broker), client_of(broker)]
        for client in (*clients, *clients):
            await client.call(HeartbeatRequest(), HeartbeatResponse, timeout_s=PROMPTLY_S)
        assert callers[0] is callers[2]
        assert callers[1] is callers[3]
        assert callers[0] is not callers[1]
        assert (callers[0].peer_host, callers[0].listener_name) == ("127.0.0.1", "PLAINTEXT")
        assert str(callers[0].principal) == "User:ANONYMOUS"
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    ("api_key", "words"), [(0, "unsupported API Produce, version 1"), (999, "unsupported API 999, version 1")]
)
async def test_an_old_client_is_logged_by_the_name_of_what_it_asked(tmp_path: Path, api_key: int, words: str) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        frame = struct.pack(">hhi", api_key, 1, 7) + b"\xff\xff"
        with pytest.raises(CloseConnection) as closed:
            KafkaDoor(cluster.leader.dispatcher).dispatch(cast("Connection", None), frame, 0)
        assert words in str(closed.value)


async def test_a_refusal_that_no_response_can_say_closes_the_connection(tmp_path: Path) -> None:
    def now(context: Any, request: Any) -> NoReturn:
        raise BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def later(context: Any, request: Any) -> NoReturn:
        now(context, request)

    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1)
        broker = cluster.leader
        route = broker.dispatcher.find_route(12)
        assert route is not None
        route.codec = CODEC
        for handle in (now, later):
            route.handle, route.is_coroutine = handle, handle is later
            client = client_of(broker)
            with pytest.raises(RpcError, match=r"closed|lost"):
                await client.call(HeartbeatRequest(), HeartbeatResponse, timeout_s=PROMPTLY_S)
            client.close()
        await eventually(lambda: broker.dispatcher.services.metrics.connections_closed["refused"] == 2, "both closed")
