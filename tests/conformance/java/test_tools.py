"""Kafka's own command line tools, that is Java's AdminClient, producer and consumer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.servers.broker_process import BrokerProcess
from tests.servers.java_tools import JavaTools, ToolResult
from tests.servers.topics import create_topic, list_offset, new_name, produce_values
from tests.servers.wire import Connection
from tests.waiting import wait_until

pytestmark = pytest.mark.java

Tool = Callable[..., ToolResult]


@pytest.fixture
def tool(java_tools: JavaTools, broker: BrokerProcess) -> Tool:
    """A tool of Kafka pointed at the broker under test."""

    def run(name: str, *arguments: str, stdin: str = "") -> ToolResult:
        return java_tools.run(name, "--bootstrap-server", broker.bootstrap, *arguments, stdin=stdin)

    return run


def test_kafka_topics(tool: Tool, connection: Connection) -> None:
    name = new_name("java")
    create = ("--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=60000")
    assert f"Created topic {name}" in tool("topics", *create).check()
    refused = tool("topics", *create)
    assert refused.status == 1
    assert "already exists" in refused.stdout
    assert name in tool("topics", "--list").check().split()
    described = tool("topics", "--describe", "--topic", name).check()
    assert "PartitionCount: 2\tReplicationFactor: 1" in described
    assert "retention.ms=60000" in described
    assert len(re.findall(r"Partition: \d\tLeader: 1\tReplicas: 1\tIsr: 1", described)) == 2
    tool("topics", "--alter", "--topic", name, "--partitions", "3").check()
    wait_until(lambda: list_offset(connection, name, 2, -1)[0] == 0, "the new partition can be read")
    tool("topics", "--delete", "--topic", name).check()
    wait_until(lambda: name not in tool("topics", "--list").check().split(), "the topic is gone")
    assert tool("topics", "--describe", "--topic", name).status == 1


def test_kafka_topics_with_replicas_that_cannot_be(tool: Tool) -> None:
    refused = tool("topics", "--create", "--topic", new_name("replicas"), "--replication-factor", "3")
    assert refused.status == 1
    assert "replication factor" in refused.stdout


def test_kafka_configs_of_a_topic(tool: Tool, connection: Connection) -> None:
    name = create_topic(connection)
    entity = ("--entity-type", "topics", "--entity-name", name)
    tool("configs", "--alter", *entity, "--add-config", "retention.ms=1000,cleanup.policy=[delete,compact]").check()
    described = tool("configs", "--describe", *entity).check()
    assert "retention.ms=1000" in described
    assert "cleanup.policy=delete,compact" in described
    tool("configs", "--alter", *entity, "--delete-config", "retention.ms").check()
    assert "retention.ms" not in tool("configs", "--describe", *entity).check()
    everything = tool("configs", "--describe", "--all", *entity).check()
    assert "retention.ms=604800000" in everything
    refused = tool("configs", "--alter", *entity, "--add-config", "retention.ms=soon")
    assert refused.status == 1
    assert "InvalidConfigurationException" in refused.stdout + refused.stderr


def test_kafka_configs_of_the_broker(tool: Tool) -> None:
    described = tool("configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1").check()
    assert "num.partitions=1" in described


def test_kafka_get_offsets(tool: Tool, connection: Connection) -> None:
    name = create_topic(connection, partitions=2)
    produce_values(connection, name, *[b"x"] * 7)
    produce_values(connection, name, *[b"x"] * 3, partition=1)

    def offsets(time: str) -> list[str]:
        return tool("get-offsets", "--topic", name, "--time", time).check().split()

    assert offsets("latest") == [f"{name}:0:7", f"{name}:1:3"]
    assert offsets("earliest") == [f"{name}:0:0", f"{name}:1:0"]
    assert offsets("0") == [f"{name}:0:0", f"{name}:1:0"]
    # Records of one timestamp: Kafka answers with the first of the batch that has it.
    assert offsets("max-timestamp") == [f"{name}:0:0", f"{name}:1:0"]


def test_kafka_delete_records(tool: Tool, connection: Connection, tmp_path: Path) -> None:
    name = create_topic(connection)
    produce_values(connection, name, *[b"x"] * 10)
    wanted = tmp_path / "delete.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "offset": 6}]}))
    assert "low_watermark: 6" in tool("delete-records", "--offset-json-file", str(wanted)).check()
    assert list_offset(connection, name, 0, -2)[2] == 6


def test_kafka_log_dirs(tool: Tool, connection: Connection) -> None:
    name = create_topic(connection)
    produce_values(connection, name, b"x" * 1000)
    output = tool("log-dirs", "--describe", "--topic-list", name).check()
    [line] = [line for line in output.splitlines() if line.startswith("{")]
    [broker] = json.loads(line)["brokers"]
    [directory] = broker["logDirs"]
    assert directory["error"] is None
    [partition] = directory["partitions"]
    assert partition["partition"] == f"{name}-0"
    assert 1061 <= partition["size"] <= 1200
    assert partition["offsetLag"] == 0


def test_kafka_leader_election(tool: Tool, connection: Connection) -> None:
    name = create_topic(connection)
    arguments = ("--election-type", "preferred", "--topic", name, "--partition", "0")
    output = tool("leader-election", *arguments)
    assert output.status == 0, output
    assert "Valid replica already elected for partitions" in output.stdout


def test_kafka_broker_api_versions(tool: Tool) -> None:
    output = tool("broker-api-versions").check()
    # Versions 0 to 2 are listed for the sake of older librdkafka, which would not compress otherwise; none serves them.
    assert "Produce(0): 0 to 13 [usable: 13]" in output
    assert "ApiVersions(18): 0 to 4 [usable: 4]" in output


def test_kafka_cluster(java_tools: JavaTools, broker: BrokerProcess) -> None:
    output = java_tools.run("cluster", "cluster-id", "--bootstrap-server", broker.bootstrap).check()
    assert re.fullmatch(r"Cluster ID: [\w-]{22}\n", output)


def test_client_compatibility(java_tools: JavaTools, broker: BrokerProcess) -> None:
    """Kafka's own check that a broker has the features a current client expects."""
    topic = new_name("compatibility")
    features = (
        "--offsets-for-times-supported",
        "--cluster-id-supported",
        "--expect-record-too-large-exception",
        "--create-topics-supported",
        "--describe-acls-supported",
        "--describe-configs-supported",
        "--idempotent-producer-supported",
    )
    # Kafka without an authorizer refuses DescribeAcls in a way that counts as support; Tidelog has no ACLs yet.
    acls = "True" if broker.kind == "kafka" else "False"
    values = {"--expect-record-too-large-exception": "False", "--describe-acls-supported": acls}
    arguments = [part for name in features for part in (name, values.get(name, "True"))]
    java_tools.run(
        "client-compatibility",
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        topic,
        "--num-cluster-nodes",
        "1",
        *arguments,
    ).check()


def test_producer_and_consumer_performance(
    java_tools: JavaTools, broker: BrokerProcess, connection: Connection
) -> None:
    name = create_topic(connection, partitions=2)
    produced = java_tools.run(
        "producer-perf-test",
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        name,
        "--num-records",
        "50000",
        "--record-size",
        "100",
        "--throughput",
        "-1",
    ).check()
    assert "50000 records sent" in produced
    assert sum(list_offset(connection, name, partition, -1)[2] for partition in (0, 1)) == 50_000
    consumed = java_tools.run(
        "consumer-perf-test",
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        name,
        "--num-records",
        "50000",
        "--timeout",
        "30000",
    ).check()
    figures = consumed.splitlines()[-1].split(", ")
    assert int(figures[4]) >= 50_000
