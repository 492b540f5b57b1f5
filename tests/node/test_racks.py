"""Three nodes in two racks: where replicas go, who reads where, who leads, and how fast copies come."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from tests.waiting import wait_until

from tidelog.cli.wire import BrokerConnection
from tidelog.metadata.image import PartitionState
from tidelog.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.testing.broker import Broker

DEADLINE_S = 60.0
RACKS = {1: "a", 2: "a", 3: "b"}
SETTINGS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "leader.imbalance.check.interval.seconds": "1",
}
COPIED_BYTES = 3_000_000
THROTTLED_BYTES_PER_SECOND = 1_000_000
FREE_MOVES_MAX = 3


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Broker]]:
    data: Path = tmp_path_factory.mktemp("racks")
    started: dict[int, Broker] = {}
    with ExitStack() as stack:
        for node_id, rack in RACKS.items():
            config = {**SETTINGS, "node.id": node_id, "broker.rack": rack}
            if started:
                config["controller.quorum.bootstrap.servers"] = started[1].bootstrap_servers
            started[node_id] = stack.enter_context(Broker(config, data=data / str(node_id)))
        yield started


def admin_of(nodes: dict[int, Broker]) -> AdminClient:
    return AdminClient({"bootstrap.servers": nodes[1].bootstrap_servers, "log_level": 0})


def create(nodes: dict[int, Broker], topic: NewTopic) -> None:
    admin = admin_of(nodes)
    admin.create_topics([topic], operation_timeout=30)[topic.topic].result(DEADLINE_S)
    # The controller was asked, whichever node that is; what is looked at is what node 1 knows.
    wait_until(lambda: topic.topic in nodes[1].node.metadata.topics, "node 1 knows the topic")


def state(nodes: dict[int, Broker], topic: str, partition: int = 0) -> PartitionState:
    return nodes[1].node.metadata.topics[topic].partitions[partition]


def fill(nodes: dict[int, Broker], topic: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": nodes[1].bootstrap_servers, "acks": "all", "log_level": 0})
    for _ in range(size // 10_000):
        producer.produce(topic, b"x" * 10_000)
    assert producer.flush(DEADLINE_S) == 0


def test_replicas_stand_in_different_racks(nodes: dict[int, Broker]) -> None:
    create(nodes, NewTopic("apart", 12, 2))
    placed = [each.replicas for each in nodes[1].node.metadata.topics["apart"].partitions.values()]
    assert all(len({RACKS[node_id] for node_id in replicas}) == 2 for replicas in placed), placed


def test_a_consumer_reads_from_the_replica_in_its_rack(nodes: dict[int, Broker]) -> None:
    create(nodes, NewTopic("near", 1, replica_assignment=[[1, 3]]))
    fill(nodes, "near", 100_000)
    read_from: list[int] = []

    def note(text: str) -> None:
        partition = json.loads(text)["topics"].get("near", {}).get("partitions", {}).get("0")
        if partition is not None:
            read_from.append(partition["broker"])

    consumer = Consumer(
        {
            "bootstrap.servers": nodes[1].bootstrap_servers,
            "group.id": "near",
            "client.rack": "b",
            "statistics.interval.ms": 50,
            "stats_cb": note,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("near", 0, 0)])
    found = 0

    def read() -> bool:
        nonlocal found
        found += sum(not message.error() for message in consumer.consume(100, 0.1))
        return found >= 10 and 3 in read_from

    try:
        wait_until(read, lambda: f"10 records read, the last from node 3: {found} from {read_from[-3:]}")
    finally:
        consumer.close()
    assert found == 10
    assert state(nodes, "near").leader == 1, "the leader is in another rack"


def test_leadership_goes_back_to_the_preferred_replica_by_itself(nodes: dict[int, Broker]) -> None:
    create(nodes, NewTopic("preferred", 1, replica_assignment=[[3, 2]]))
    assert state(nodes, "preferred").leader == 3
    nodes[3].stop()
    wait_until(lambda: state(nodes, "preferred").leader == 2, "the other replica leads")
    nodes[3].start()
    wait_until(lambda: state(nodes, "preferred").leader == 3, "the preferred replica leads again")


def move(nodes: dict[int, Broker], name: str, rate: int | None = None) -> float:
    """Seconds until a topic has moved from one node to another."""
    create(nodes, NewTopic(name, 1, replica_assignment=[[1]]))
    fill(nodes, name, COPIED_BYTES)
    if rate is not None:
        throttle(nodes, name, rate)
    moved = ReassignablePartition(partition_index=0, replicas=[2])
    since_s = time.monotonic()
    with BrokerConnection("127.0.0.1", nodes[1].port) as connection:
        topic = ReassignableTopic(name=name, partitions=[moved])
        connection.call(AlterPartitionReassignmentsRequest(topics=[topic]), 1)
    wait_until(lambda: state(nodes, name).replicas == (2,), f"{name}: the move")
    return time.monotonic() - since_s


def test_a_reassignment_is_throttled_and_comes_to_its_end(nodes: dict[int, Broker]) -> None:
    throttled_s = move(nodes, "throttled", THROTTLED_BYTES_PER_SECOND)
    assert throttled_s >= COPIED_BYTES / THROTTLED_BYTES_PER_SECOND / 3
    # The rate holds for the replicas it was set for. What else the machine does can make any one move slow.
    freely_s: list[float] = []
    while not freely_s or min(freely_s) >= throttled_s:
        assert len(freely_s) < FREE_MOVES_MAX, (freely_s, throttled_s)
        freely_s.append(move(nodes, f"freely-{len(freely_s)}"))


def throttle(nodes: dict[int, Broker], topic: str, rate: int) -> None:
    """As Kafka's tool for reassignments does it: the rate on the nodes, the replicas it is for on the topic."""

    def change(kind: ConfigResource.Type, name: str, value: str, suffix: str) -> ConfigResource:
        entries = [
            ConfigEntry(f"{side}.replication.throttled.{suffix}", value, incremental_operation=AlterConfigOpType.SET)
            for side in ("leader", "follower")
        ]
        return ConfigResource(kind, name, incremental_configs=entries)

    changes = [change(ConfigResource.Type.BROKER, str(node_id), str(rate), "rate") for node_id in nodes]
    changes.append(change(ConfigResource.Type.TOPIC, topic, "*", "replicas"))
    admin = admin_of(nodes)
    for each in changes:
        admin.incremental_alter_configs([each])[each].result(DEADLINE_S)
