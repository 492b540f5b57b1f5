"""Kafka's tools for clusters against three nodes: quorum, reassignment, elections, features."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.servers.java_tools import JavaTools, ToolResult
from tests.waiting import wait_until

from tidelog.testing.embedded_cluster import EmbeddedCluster

pytestmark = pytest.mark.java

DEADLINE_S = 60.0
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"

Tool = Callable[..., ToolResult]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(nodes=3) as running:
        yield running


@pytest.fixture
def tool(java_tools: JavaTools, cluster: EmbeddedCluster) -> Tool:
    """A tool of Kafka pointed at a node that is not the controller."""
    outsider = next(broker for broker in cluster.brokers if not broker.node.is_controller)

    def run(name: str, *arguments: str) -> ToolResult:
        return java_tools.run(name, "--bootstrap-server", outsider.bootstrap_servers, *arguments)

    return run


def create(cluster: EmbeddedCluster, name: str, partitions: int) -> None:
    """A topic that every node knows: the tools ask one that was not told of it."""
    cluster.create_topic(name, partitions)
    wait_until(
        lambda: all(name in broker.node.metadata.topics for broker in cluster.brokers), f"{name} known everywhere"
    )


def test_metadata_quorum(tool: Tool, cluster: EmbeddedCluster) -> None:
    def voters() -> str:
        described = tool(QUORUM, "describe", "--status").check()
        assert f"LeaderId:               {cluster.controller.node.config.node_id}" in described
        return described

    wait_until(
        lambda: len(re.findall(r'"id": ?\d', voters().partition("CurrentVoters")[2].partition("\n")[0])) == 3, "voters"
    )
    rows = tool(QUORUM, "describe", "--replication").check()
    assert sorted(line.split()[0] for line in rows.splitlines()[1:] if line.strip()) == ["1", "2", "3"]
    assert {line.split()[-1] for line in rows.splitlines()[1:] if line.strip()} <= {"Leader", "Follower", "Observer"}


def test_reassign_partitions(tool: Tool, cluster: EmbeddedCluster, tmp_path: Path) -> None:
    create(cluster, "moved", 2)
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps(
            {"version": 1, "partitions": [{"topic": "moved", "partition": n, "replicas": [3, 1]} for n in range(2)]}
        )
    )
    arguments = ("--reassignment-json-file", str(plan))
    started = tool(REASSIGN, *arguments, "--execute", "--throttle", "50000000").check()
    assert "Successfully started partition reassignment" in started
    assert "The inter-broker throttle limit was set to 50000000 B/s" in started
    wait_until(lambda: "is still in progress" not in tool(REASSIGN, *arguments, "--verify").check(), "the move")
    image = cluster.controller.node.metadata
    assert image.topics["moved"].config == {}, "the tool takes the throttle back when all has moved"
    assert all(not texts for texts in image.broker_configs.values())
    states = image.topics["moved"].partitions
    assert [state.replicas for state in states.values()] == [(3, 1), (3, 1)]
    assert "No partition reassignments found" in tool(REASSIGN, "--list").check()


def test_leader_election(tool: Tool, cluster: EmbeddedCluster) -> None:
    create(cluster, "elected", 3)
    result = tool("leader-election", "--election-type", "preferred", "--all-topic-partitions")
    assert result.status == 0, result


def test_features(tool: Tool) -> None:
    described = tool(FEATURES, "describe").check()
    assert re.search(r"transaction\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2", described)
    assert re.search(
        r"tidelog\.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+FinalizedVersionLevel: 2", described
    )
    assert tool(FEATURES, "upgrade", "--feature", "tidelog.version=2").status == 0
    assert tool(FEATURES, "downgrade", "--feature", "tidelog.version=0").status == 1
    refused = tool(FEATURES, "upgrade", "--feature", "transaction.version=9")
    assert refused.status == 1
    lowered = tool(FEATURES, "downgrade", "--feature", "group.version=0")
    assert lowered.status == 0, lowered
    assert tool(FEATURES, "upgrade", "--feature", "group.version=1").status == 0


def test_cluster_tool(java_tools: JavaTools, cluster: EmbeddedCluster) -> None:
    def run(verb: str, *arguments: str) -> ToolResult:
        return java_tools.run("cluster", verb, "--bootstrap-server", cluster.bootstrap_servers, *arguments)

    assert cluster.controller.node.metadata.cluster_id in run("cluster-id").check()
    listed = run("list-endpoints").check()
    for broker in cluster.brokers:
        assert str(broker.port) in listed
    refused = run("unregister", "--id", "77")
    assert "77 is not" in refused.stdout + refused.stderr
