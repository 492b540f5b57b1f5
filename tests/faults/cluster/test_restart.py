"""All nodes stop and start again, and a node comes back with an empty disk: everything is there."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from tests.faults.cluster.load import DEADLINE_S, PARTITIONS, Load, create_topic, is_whole, wait_for

from tidelog.cli.local_cluster import LocalCluster

NODES = (1, 2, 3)


def written(cluster: LocalCluster) -> Load:
    topic = create_topic(cluster.bootstrap)
    wait_for(cluster.bootstrap, is_whole, "a whole cluster")
    load = Load(cluster.bootstrap, topic)
    load.start()
    load.wait_for_writes(list(range(PARTITIONS)), 0.0)
    return load


def commit_offsets(bootstrap: str, topic: str) -> int:
    """Reads a little as a group, and remembers how much."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe([topic])
    read = 0
    while read < 10:
        read += len([message for message in consumer.consume(10, 1.0) if not message.error()])
    committed = consumer.commit(asynchronous=False)
    consumer.close()
    return sum(partition.offset for partition in committed if partition.offset >= 0)


def committed_offsets(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "log_level": 0})
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found = consumer.committed(asked, timeout=DEADLINE_S)
    consumer.close()
    return sum(partition.offset for partition in found if partition.offset >= 0)


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
