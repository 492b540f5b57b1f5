"""Brokers with real logs, real listeners and real fetchers, and a controller that decides by the real functions.

Only the quorum is left out: a decision takes effect at once, on every node that listens.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from tests.unit.api.answering import services_of
from tests.unit.storage.faulty_disk import FaultyDisk
from tests.waiting import eventually

from tidelog.api.dispatcher import Dispatcher
from tidelog.api.kafka_door import KafkaDoor
from tidelog.config.broker import BrokerConfig
from tidelog.controller.core.alter_partition import IsrChange, IsrOutcome, decide_alter_partitions
from tidelog.controller.core.brokers import Registration, decide_fence_broker, decide_heartbeat, decide_register_broker
from tidelog.controller.core.decision import Decision
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import Endpoint, MetadataImage
from tidelog.metadata.publisher import MetadataPublisher
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.net.client.pipelined import RpcClient
from tidelog.net.client.pool import RpcPool
from tidelog.net.listener import Listener, ListenerSettings
from tidelog.net.shared import SharedByListeners
from tidelog.partitions.fetching import Fetching
from tidelog.partitions.partition import Partition
from tidelog.partitions.producing import Producing
from tidelog.partitions.replication.fetcher import FetcherIdentity
from tidelog.partitions.replication.replication import Replication
from tidelog.partitions.table import PartitionTable
from tidelog.protocol.generated.config_record import ConfigRecord
from tidelog.protocol.generated.partition_record import PartitionRecord
from tidelog.protocol.generated.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.message import Message
from tidelog.records.batch import iterate_headers
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import iterate_records
from tidelog.runtime.clock import monotonic_ms, monotonic_s, wall_clock_ms
from tidelog.storage.log_directory import LogDirectory
from tidelog.telemetry.metrics import NodeMetrics

R = TypeVar("R")
TOPIC = "events"
TOPIC_ID = b"t" * 16
SETTINGS = {"replica_fetch_wait_max_ms": 100, "replica_fetch_backoff_ms": 100}
WAIT_S = 30.0


class SmallBroker:
    """A node as far as data goes."""

    def __init__(self, cluster: SmallCluster, node_id: int, **settings: Any) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.path = cluster.path / f"node-{node_id}"
        self.config = BrokerConfig(node_id=node_id, **{**SETTINGS, **cluster.settings, **settings})
        self.epoch = -1
        self.is_listening = False
        self.is_cut_off = False
        """Hears nothing from the controller."""
        self.disk = FaultyDisk()

    async def start(self) -> None:
        metrics = NodeMetrics()
        self.workers = ThreadPoolExecutor(2)
        self.directory = LogDirectory.open(self.path, node_id=self.node_id, cluster_id=None, system=self.disk.system)
        self.listener = Listener(
            ListenerSettings(name="PLAINTEXT"), SharedByListeners(metrics, monotonic_s, budget_bytes=1 << 30)
        )
        await self.listener.bind("127.0.0.1", 0)
        self.metadata = MetadataPublisher(self.cluster.image)
        self.pool = RpcPool(self._find_address, client_id=f"node-{self.node_id}")
        identity = FetcherIdentity(self.node_id, lambda: self.epoch, "")
        self.replication = Replication(self.config, self.pool, identity, self._alter_partitions)
        self.table = PartitionTable(
            config=self.config,
            directory=self.directory,
            metrics=metrics,
            workers=self.workers,
            replication=self.replication,
        )
        await self.table.load(self.cluster.image)
        self.metadata.subscribe(self.table.apply)
        services = services_of(
            node_id=self.node_id,
            config=self.config,
            metadata=self.metadata,
            partitions=self.table,
            producing=Producing(self.table, self.metadata, metrics, wall_clock_ms),
            fetching=Fetching(self.table, self.config, self.metadata, metrics, wall_clock_ms, monotonic_ms),
            metrics=metrics,
            now_ms=wall_clock_ms,
        )
        self.dispatcher = Dispatcher(services)
        self.dispatcher.open()
        await self.listener.serve(KafkaDoor(self.dispatcher).dispatch)
        self.is_listening = True
        self.epoch = self.cluster.register(self)
        self.replication.start()
        self.client = RpcClient(f"node {self.node_id}", lambda: ("127.0.0.1", self.listener.port), client_id="producer")

    async def stop(self, *, clean: bool = True) -> None:
        self.is_listening = False
        self.client.close()
        self.listener.stop_accepting()
        self.listener.close_connections()
        await self.replication.stop()
        self.pool.close()
        await self.dispatcher.stop()
        high_watermarks = self.table.high_watermarks()
        self.directory.close(clean=clean, high_watermarks=high_watermarks)
        self.workers.shutdown()

    def _find_address(self, node_id: int) -> tuple[str, int] | None:
        broker = self.metadata.image.brokers.get(node_id)
        return None if broker is None else (broker.endpoints[0].host, broker.endpoints[0].port)

    async def _alter_partitions(self, changes: Sequence[IsrChange]) -> list[IsrOutcome]:
        if self.is_cut_off:
            raise BrokerError(ErrorCode.NOT_CONTROLLER)
        return self.cluster.decide(lambda image: decide_alter_partitions(image, self.node_id, self.epoch, changes))

    @property
    def partition(self) -> Partition:
        found = self.table.find_partition(TOPIC, 0)
        assert found is not None
        return found

    def values(self) -> list[bytes]:
        """Everything in the log, committed or not."""
        log = self.partition.log
        if log.log_end_offset == log.log_start_offset:
            return []
        data = log.reader.read(
            log.log_start_offset, 1 << 30, upper_offset=log.log_end_offset, min_one_batch=True
        ).load()
        found = []
        for position, header in iterate_headers(data):
            batch = data[position : position + header.size_in_bytes]
            found += [bytes(record.value or b"") for record in iterate_records(batch)]
        return found

    async def produce(self, *values: bytes, **options: Any) -> tuple[int, int]:
        """Error code and base offset."""
        response = await self.produce_response(*values, **options)
        answer = response.responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    async def produce_response(
        self, *values: bytes, index: int = 0, acks: int = -1, timeout_ms: int = 10_000, **fields: Any
    ) -> ProduceResponse:
        batch = build_batch([NewRecord(None, value, wall_clock_ms()) for value in values], **fields)
        partition = PartitionProduceData(index=index, records=batch)
        topic = TopicProduceData(topic_id=TOPIC_ID, partition_data=[partition])
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
        return await self.client.call(request, ProduceResponse)


class SmallCluster:
    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        self.settings = settings
        self.image = MetadataImage()
        self.brokers: dict[int, SmallBroker] = {}
        self.config = BrokerConfig()

    async def start(self, count: int = 3, **topic_config: str) -> None:
        for node_id in range(1, count + 1):
            if node_id not in self.brokers:
                self.brokers[node_id] = SmallBroker(self, node_id)
            await self.brokers[node_id].start()
        replicas = list(self.brokers)
        records: list[Message] = [
            TopicRecord(name=TOPIC, topic_id=TOPIC_ID),
            PartitionRecord(
                partition_id=0, topic_id=TOPIC_ID, replicas=replicas, isr=replicas, leader=1, leader_epoch=0
            ),
        ]
        records += [
            ConfigRecord(resource_type=2, resource_name=TOPIC, name=name.replace("_", "."), value=value)
            for name, value in topic_config.items()
        ]
        self.decide(lambda _: Decision(records, None))

    def add_partition(self, index: int) -> None:
        replicas = list(self.brokers)
        record = PartitionRecord(
            partition_id=index, topic_id=TOPIC_ID, replicas=replicas, isr=replicas, leader=1, leader_epoch=0
        )
        self.decide(lambda _: Decision([record], None))

    async def stop(self) -> None:
        for broker in self.brokers.values():
            if broker.is_listening:
                await broker.stop()

    async def __aenter__(self) -> SmallCluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def decide(self, decide: Callable[[MetadataImage], Decision[R]]) -> R:
        decision = decide(self.image)
        if decision.records:
            delta = MetadataDelta(self.image, decision.records)
            self.image = delta.apply(self.image.offset + len(decision.records), 0)
            for broker in self.brokers.values():
                if broker.is_listening and not broker.is_cut_off:
                    broker.metadata.publish(self.image, delta)
        return decision.reply

    def register(self, broker: SmallBroker) -> int:
        registration = Registration(
            broker.node_id,
            os.urandom(16),
            [Endpoint("PLAINTEXT", "127.0.0.1", broker.listener.port)],
            [b"d" * 16],
            rack=broker.config.broker_rack,
        )
        epoch = self.decide(lambda image: decide_register_broker(image, self.config, registration))
        self.decide(
            lambda image: decide_heartbeat(image, self.config, broker.node_id, epoch, metadata_offset=image.offset)
        )
        return epoch

    def fence(self, node_id: int) -> None:
        self.decide(lambda image: decide_fence_broker(image, self.config, node_id))

    def elect(self, leader: int) -> None:
        """Makes a replica that is in sync the leader."""
        from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord

        record = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=leader)
        self.decide(lambda _: Decision([record], None))

    @property
    def state(self) -> Any:
        return self.image.topics[TOPIC].partitions[0]

    @property
    def leader(self) -> SmallBroker:
        return self.brokers[self.state.leader]

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(TOPIC, 0)

    async def in_sync(self, *node_ids: int) -> None:
        await eventually(
            lambda: set(self.state.isr) == set(node_ids), lambda: f"in-sync set {node_ids}, is {self.state.isr}"
        )
