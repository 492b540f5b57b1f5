"""All nodes stop and start again, and a node comes back with an empty disk: everything is there."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.cluster.group_offsets import commit_offsets, committed_offsets
from tests.faults.cluster.load import (
    DEADLINE_S,
    PARTITIONS,
    Load,
    create_topic,
    elect_leaders,
    is_whole,
    read_numbers,
    wait_for,
)

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster
from tidelog.model import ids
from tidelog.protocol.generated.elect_leaders import ElectLeadersRequest, TopicPartitions

NODES = (1, 2, 3)


def written(cluster: LocalCluster) -> Load:
    topic = create_topic(cluster.bootstrap)
    wait_for(cluster.bootstrap, is_whole, "a whole cluster")
    load = Load(cluster.bootstrap, topic)
    load.start()
    load.wait_for_writes(list(range(PARTITIONS)), 0.0)
    return load


def test_a_whole_cluster_is_killed_and_started_again(cluster: LocalCluster) -> None:
    load = written(cluster)
    committed = commit_offsets(cluster.bootstrap, load.topic)
    for node_id in NODES:
        cluster.send_signal(node_id, signal.SIGKILL)
    cluster.start_again(*NODES)
    load.wait_for_writes(list(range(PARTITIONS)), time.monotonic())
    wait_for(cluster.bootstrap, is_whole, "a whole cluster again")
    load.stop()
    load.check(cluster.bootstrap)
    assert committed_offsets(cluster.bootstrap, load.topic) == committed


def test_a_node_with_an_empty_disk_copies_everything_anew(cluster: LocalCluster, cluster_data: Path) -> None:
    load = written(cluster)
    cluster.send_signal(2, signal.SIGKILL)
    shutil.rmtree(cluster_data / "node-2")
    cluster.start_again(2)
    wait_for(cluster.bootstrap, is_whole, "all replicas in sync again")
    load.stop()
    # The one that came back empty leads where it is preferred, and the others may go.
    wait_for(cluster.bootstrap, is_whole, "all replicas in sync at the end")
    load.check(cluster.bootstrap)


def test_the_last_in_sync_with_an_empty_disk_does_not_empty_the_others(
    cluster: LocalCluster, cluster_data: Path
) -> None:
    """Nobody leads in its stead by himself: the others may lack what it wrote alone. An operator decides."""
    topic = f"last-{time.monotonic_ns()}"
    where = ids.TopicPartition(topic, 0)
    bootstrap = cluster.bootstrap
    wait_for(bootstrap, is_whole, "a whole cluster")
    new = NewTopic(topic, 1, replica_assignment=[[2, 3]], config={"min.insync.replicas": "1"})
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([new], operation_timeout=30)[topic].result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for number in range(100):
        producer.produce(topic, str(number).encode())
    assert producer.flush(DEADLINE_S) == 0

    cluster.send_signal(3, signal.SIGKILL)

    def is_last(state: ClusterState) -> bool:
        # Whoever is asked may hear of the topic a moment later than the node that was asked for it.
        return where in state.partitions and tuple(state.partitions[where].isr) == (2,)

    wait_for(bootstrap, is_last, "node 2 is the last in sync")
    cluster.send_signal(2, signal.SIGKILL)
    shutil.rmtree(cluster_data / "node-2")
    cluster.start_again(2, 3)

    def waits_for_an_operator(state: ClusterState) -> bool:
        return len(state.live_racks()) == 3 and [partition for partition, _ in state.leaderless] == [where]

    wait_for(bootstrap, waits_for_an_operator, "all are back, and only the partition has no leader")
    wanted = TopicPartitions(topic=topic, partitions=[0])

    def is_whole_again(state: ClusterState) -> bool:
        if where in (partition for partition, _ in state.leaderless):
            elect_leaders(bootstrap, ElectLeadersRequest(election_type=1, topic_partitions=[wanted]))
        return is_whole(state) and where in state.partitions

    state = wait_for(bootstrap, is_whole_again, "a whole cluster in the end")
    assert state.partitions[where].leader == 3
    assert read_numbers(bootstrap, topic, 0) == list(range(100))
