"""Simulated clients: they speak Kafka's protocol to the nodes over the simulated network and keep trying."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from tests.simulation.clock import DriftingClock
from tests.simulation.cluster.environment import ProcessNetwork
from tests.simulation.cluster.process import Process
from tests.simulation.cluster.sockets import PORT_BASE
from tests.simulation.log_watch import read_records
from tests.simulation.replication_observations import Acknowledged, Committed, ReaderTold

from tidelog.model.errors import ErrorCode
from tidelog.net.client.errors import RpcError
from tidelog.net.client.pipelined import RpcClient
from tidelog.net.framing import SCRATCH_BYTES
from tidelog.protocol.generated.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.generated.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.generated.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.message import Message
from tidelog.records.builder import NewRecord, build_batch

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import SimulatedCluster

M = TypeVar("M", bound=Message)

TOPIC = "t"
TIMEOUT_S = 0.6
PAUSE_S = 0.03
TIMESTAMP_MS = 1_700_000_000_000

_scratch = memoryview(bytearray(SCRATCH_BYTES))


class Client:
    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.process = Process(self.world, 100 + number, DriftingClock(self.world, 0.0))
        self._network = ProcessNetwork(self.process, cluster.sockets, cluster.chance).as_network()
        self._connections: dict[int, RpcClient] = {}
        self.is_stopping = False
        """Nothing new is begun; what is under way is brought to its end."""
        self.waits_for: object = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self.process.run(self.live)

    @property
    def is_done(self) -> bool:
        return self._task is not None and self._task.done()

    async def live(self) -> None:
        raise NotImplementedError

    async def pause(self) -> None:
        await asyncio.sleep(self.world.random.uniform(PAUSE_S / 3, PAUSE_S))

    async def call(
        self, node_id: int, request: Message, answer: type[M], version: int, timeout_s: float = TIMEOUT_S
    ) -> M | None:
        """None when there was no answer."""
        connection = self._connections.get(node_id)
        if connection is None:
            connection = self._connections[node_id] = RpcClient(
                f"node {node_id}",
                lambda: ("127.0.0.1", PORT_BASE + node_id),
                client_id=str(self.process),
                scratch=_scratch,
                asks_versions=False,
                network=self._network,
            )
        try:
            return await connection.call(request, answer, version=version, timeout_s=timeout_s)
        except RpcError:
            await self.pause()
            return None

    def anyone(self) -> int:
        return self.world.random.choice(list(self.cluster.nodes))

    async def leader_of(self, partition: int) -> int:
        """As some node knows it, which may be long ago; -1 when it knows none."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        answer = await self.call(self.anyone(), request, MetadataResponse, 12)
        for topic in [] if answer is None else answer.topics:
            for found in topic.partitions:
                if found.partition_index == partition and found.leader_id >= 0:
                    return found.leader_id
        await self.pause()
        return -1

    async def produce(
        self, leader: int, partition: int, batch: bytes, transactional_id: str | None = None, version: int = 11
    ) -> PartitionProduceResponse | None:
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=400, topic_data=[data], transactional_id=transactional_id)
        answer = await self.call(leader, request, ProduceResponse, version)
        return None if answer is None else answer.responses[0].partition_responses[0]


class TopicMaker(Client):
    """Makes the topic, with three replicas of each partition, and is done."""

    async def live(self) -> None:
        topic = CreatableTopic(name=TOPIC, num_partitions=self.cluster.partitions, replication_factor=3)
        while True:
            answer = await self.call(self.anyone(), CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
            if answer is not None:
                code = answer.topics[0].error_code
                if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    return
                self.world.note(self.process, f"topic refused with {code}")
                await self.pause()


class IdempotentProducer(Client):
    """One batch at a time with acks=all, sent again until it is acknowledged."""

    def __init__(self, cluster: SimulatedCluster, number: int, partition: int) -> None:
        super().__init__(cluster, number)
        self._partition = partition
        self.acknowledged = 0

    async def live(self) -> None:
        producer_id = -1
        while producer_id < 0:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            answer = await self.call(self.anyone(), request, InitProducerIdResponse, 4)
            if answer is not None and not answer.error_code:
                producer_id = answer.producer_id
            else:
                await self.pause()
        sequence = 0
        while not self.is_stopping:
            count = self.world.random.randint(1, 3)
            values = [f"{self.process.host}:{sequence + index}".encode() for index in range(count)]
            self.waits_for = values[0]
            await self._send(producer_id, sequence, values)
            self.acknowledged += count
            sequence += count
            await self.pause()

    async def _send(self, producer_id: int, sequence: int, values: list[bytes]) -> None:
        batch = build_batch(
            [NewRecord(None, value, TIMESTAMP_MS) for value in values],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        while True:
            leader = await self.leader_of(self._partition)
            answer = None if leader < 0 else await self.produce(leader, self._partition, batch)
            if answer is None:
                continue
            if not answer.error_code:
                for index, value in enumerate(values):
                    self.world.observe(Acknowledged(self._partition, answer.base_offset + index, value))
                return
            self.world.note(self.process, f"refused with {ErrorCode(answer.error_code).name}")
            await self.pause()


class Reader(Client):
    """A consumer of one partition that follows its leaders: where does it end, and what does it hold?"""

    def __init__(self, cluster: SimulatedCluster, number: int, partition: int) -> None:
        super().__init__(cluster, number)
        self._partition = partition
        self._position = 0

    async def live(self) -> None:
        while not self.is_stopping:
            leader = await self.leader_of(self._partition)
            if leader >= 0:
                await self._ask_end(leader)
                await self._read(leader)
            await self.pause()

    async def _ask_end(self, leader: int) -> None:
        asked = ListOffsetsPartition(partition_index=self._partition, current_leader_epoch=-1, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[asked])])
        answer = await self.call(leader, request, ListOffsetsResponse, 7)
        if answer is not None and not (found := answer.topics[0].partitions[0]).error_code:
            self.world.observe(ReaderTold(self._partition, found.leader_epoch, found.offset))

    async def _read(self, leader: int) -> None:
        asked = FetchPartition(partition=self._partition, fetch_offset=self._position, partition_max_bytes=20_000)
        request = FetchRequest(
            max_wait_ms=20, min_bytes=1, max_bytes=20_000, topics=[FetchTopic(topic=TOPIC, partitions=[asked])]
        )
        answer = await self.call(leader, request, FetchResponse, 12)
        if answer is None or answer.error_code or not answer.responses:
            return
        found = answer.responses[0].partitions[0]
        if found.error_code or not found.records:
            return
        for offset, _, value in read_records(bytes(found.records)):
            if offset >= self._position:
                self.world.observe(Committed(self.process.host, self._partition, offset, value))
                self._position = offset + 1
