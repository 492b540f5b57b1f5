"""Two of three first voters come back with empty disks: they found no cluster in the place of the one that was."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.waiting import wait_until

from tidelog import NodeStartError
from tidelog.testing import Cluster
from tidelog.testing.cluster_node import ClusterNode

MISSING = "a new cluster is founded when all of its first voters are there"


def test_the_metadata_of_the_third_node_is_not_replaced(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as threads, Cluster(directory=tmp_path / "cluster") as cluster:
        cluster.create_topic("kept", replicas=3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce("kept", b"a record")
        assert producer.flush(30) == 0
        cluster.wait_until_in_sync("kept")
        for node in cluster.nodes:
            node.kill()
        first, second, third = cluster.nodes
        for lost in (first, second):
            lost.data.rename(lost.data.with_suffix(".lost"))
        # The two that are empty come first, as after a repair; the third is late.
        start = [threads.submit(first.start), threads.submit(second.start)]
        wait_for_log(first, MISSING)
        start.append(threads.submit(third.start))
        wait_for_log(third, "quorum traffic refused")
        assert not any(each.done() for each in start), "a node is ready, and its cluster is not"
        for node in cluster.nodes:
            node.kill()
        for each in start:
            with pytest.raises(NodeStartError, match="did not start"):
                each.result(30)
        # With the disks they had, all is there.
        for lost in (first, second):
            shutil.rmtree(lost.data)
            lost.data.with_suffix(".lost").rename(lost.data)
        cluster.start_nodes(*cluster.nodes)
        cluster.wait_until_ready()
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("kept", 0, 0)])
        message = consumer.poll(30)
        consumer.close()
    assert message is not None
    assert message.value() == b"a record"


def wait_for_log(node: ClusterNode, words: str) -> None:
    wait_until(
        lambda: words in node.log_path.read_text(), lambda: f"{words!r} in the log: {node.log_tail()}", interval_s=0.05
    )
