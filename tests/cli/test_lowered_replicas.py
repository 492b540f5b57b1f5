"""Three real nodes: a drain keeps the replication factor or says so, and what it took is shown and given back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cli.command import Command

from tidelog.testing.embedded_cluster import EmbeddedCluster


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(nodes=3, config={"min.insync.replicas": 2, "offsets.topic.num.partitions": 2}) as running:
        yield running


def counts(cluster: EmbeddedCluster, topic: str) -> set[int]:
    return {len(state.replicas) for state in cluster.controller.node.metadata.topics[topic].partitions.values()}


def test_a_drain_keeps_the_factor_or_remembers_it(cluster: EmbeddedCluster) -> None:
    command = Command(cluster.controller.bootstrap_servers)
    cluster.create_topic("orders", 2)
    refused = command("cluster", "drain", "3", fails=True).err
    assert "orders 2 of 3" in refused
    assert "--allow-fewer-replicas" in refused
    assert counts(cluster, "orders") == {3}
    assert not cluster.controller.node.metadata.is_cordoned(3), "a refusal leaves all as it was"

    assert "until `tidelog cluster undrain 3`" in command("cluster", "drain", "3", "--allow-fewer-replicas").err
    assert "below min.insync.replicas" in command("cluster", "drain", "2", fails=True).err
    command("cluster", "drain", "2", "--allow-fewer-replicas")
    assert counts(cluster, "orders") == {1}
    assert command("cluster", "status", "--json").json["lowered"] == [
        {"topic": "orders", "replicas": 1, "factor": 3, "drained": [2, 3]}
    ]
    command("topics", "alter", "orders", "--partitions", "3")
    command("cluster", "undrain", "2")
    shown = command("cluster", "status").out
    assert "topic orders: 2 of 3 replicas, lowered by drain of node 3" in shown
    command("cluster", "undrain", "3")
    assert counts(cluster, "orders") == {3}, "the partition that was added meanwhile too"
    assert command("cluster", "status", "--json").json["lowered"] == []

    assert "4 replicas: 3 nodes" in command("topics", "alter", "orders", "-r", "4", fails=True).err
    assert "min.insync.replicas=2" in command("topics", "alter", "orders", "-r", "1", fails=True).err
    command("topics", "alter", "orders", "-r", "2")
    assert counts(cluster, "orders") == {2}
    command("topics", "alter", "orders", "-r", "3")
    assert counts(cluster, "orders") == {3}
