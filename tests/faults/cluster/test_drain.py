"""A node of four real processes is drained: it is emptied, gets nothing new until it is told so, and a kill of it and
of the controller changes nothing about that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from tests.faults.cluster.load import DEADLINE_S, wait_for, without
from tests.servers.local_cluster import run_local_cluster
from tests.waiting import wait_until

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster
from tidelog.cli.wire import BrokerConnection
from tidelog.protocol.generated.describe_log_dirs import DescribeLogDirsRequest

NODES, DRAINED = 4, 4


@pytest.fixture
def four(tmp_path: Path) -> Iterator[LocalCluster]:
    settings = {"default.replication.factor": "3", "offsets.topic.num.partitions": "3", "num.partitions": "8"}
    with run_local_cluster(tmp_path, settings, nodes=NODES, log_level="error") as cluster:
        yield cluster


def tidelog(cluster: LocalCluster, *arguments: str) -> str:
    address = without(cluster, DRAINED).split(",")[0]
    command = [sys.executable, "-m", "tidelog.cli.main", *arguments, "--bootstrap", address]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def states(cluster: LocalCluster) -> dict[int, str]:
    nodes = json.loads(tidelog(cluster, "cluster", "status", "--json"))["nodes"]
    return {node["node_id"]: node["state"] for node in nodes}


def topics_on_the_node(cluster: LocalCluster, *known: str) -> set[str]:
    """What the drained node has replicas of, as a node tells that knows these topics: news travels from the controller,
    and the node that answers need not be the one that was asked to create them."""

    def knows(state: ClusterState) -> bool:
        return set(known) <= {partition.topic for partition in state.partitions}

    partitions = wait_for(without(cluster, DRAINED), knows, f"a node that knows {known}").partitions
    return {partition.topic for partition, place in partitions.items() if DRAINED in place.replicas}


def wait_for_states(cluster: LocalCluster, expected: dict[int, str]) -> None:
    wait_until(lambda: states(cluster) == expected, lambda: f"{expected}, is {states(cluster)}", DEADLINE_S)


def create(cluster: LocalCluster, **given: object) -> str:
    name = f"new-{os.urandom(4).hex()}"
    admin = AdminClient({"bootstrap.servers": without(cluster, DRAINED), "log_level": 0})
    topic = NewTopic(name, **given)  # type: ignore[arg-type]
    admin.create_topics([topic], operation_timeout=30, request_timeout=DEADLINE_S)[name].result(DEADLINE_S)
    return name


def produce(cluster: LocalCluster, topic: str) -> None:
    """A topic that is not there is created by this."""
    producer = Producer({"bootstrap.servers": without(cluster, DRAINED), "acks": "all", "log_level": 0})
    for number in range(100):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(DEADLINE_S) == 0


def wait_for_setting(cluster: LocalCluster, value: str) -> None:
    """As Kafka's clients see it: the node itself says so."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.BROKER, str(DRAINED))

    def is_applied() -> bool:
        settings = admin.describe_configs([resource])[resource].result(DEADLINE_S)
        return bool(settings["cordoned.log.dirs"].value == value)

    wait_until(is_applied, f"cordoned.log.dirs={value!r} on node {DRAINED}", DEADLINE_S, interval_s=0.05)


def is_cordoned(cluster: LocalCluster) -> bool:
    """As the node describes its data directory."""
    with BrokerConnection("127.0.0.1", cluster.ports[DRAINED - 1]) as connection:
        [directory] = connection.call(DescribeLogDirsRequest(topics=None), 5).results
    return bool(directory.is_cordoned)


def test_a_drained_node_stays_empty_until_it_is_told_otherwise(four: LocalCluster) -> None:
    alive = dict.fromkeys(range(1, NODES + 1), "alive")
    drained = alive | {DRAINED: "alive, drained"}
    filled = create(four, num_partitions=8, replication_factor=3)
    produce(four, filled)
    others = without(four, DRAINED)
    wait_for(others, lambda state: len(state.live_racks()) == NODES, "all nodes")
    assert filled in topics_on_the_node(four, filled)
    tidelog(four, "cluster", "drain", str(DRAINED))
    wait_for_states(four, drained)
    wait_for_setting(four, "*")
    assert is_cordoned(four)

    produce(four, "made-by-itself")
    created = create(four, num_partitions=8, replication_factor=3)
    assert topics_on_the_node(four, "made-by-itself", created) == set()
    with pytest.raises(KafkaException, match="cordoned"):
        create(four, num_partitions=1, replica_assignment=[[DRAINED, 1]])

    controller = wait_for(others, lambda state: bool(state.quorum), "a controller").controller_id
    for node_id in {DRAINED, controller}:
        four.send_signal(node_id, signal.SIGKILL)
    four.start_again(*{DRAINED, controller})
    wait_for(others, lambda state: len(state.live_racks()) == NODES and not state.leaderless, "all nodes again")
    wait_for_states(four, drained)
    created = create(four, num_partitions=8, replication_factor=3)
    tidelog(four, "cluster", "rebalance")
    assert topics_on_the_node(four, created) == set()

    tidelog(four, "cluster", "undrain", str(DRAINED))
    wait_for_states(four, alive)
    wait_for_setting(four, "")
    assert not is_cordoned(four)
    created = create(four, num_partitions=8, replication_factor=3)
    assert created in topics_on_the_node(four, created)
