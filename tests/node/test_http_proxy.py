"""The REST Proxy's calls in a cluster: partitions, settings and groups that other nodes look after."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.servers.http import ask
from tests.waiting import wait_until

from tidelog.testing.broker import Broker
from tidelog.testing.embedded_cluster import EmbeddedCluster

JSON = "application/vnd.kafka.json.v2+json"
SETTINGS = {
    "http.listen": "127.0.0.1:0",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "1",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(2, SETTINGS) as running:
        yield running


def door_of(broker: Broker) -> int:
    endpoint = broker.node.metadata.brokers[broker.node.config.node_id].gateway("HTTP")
    assert endpoint is not None
    return endpoint.port


def call(port: int, method: str, path: str, body: object = None, media_type: str = "application/json") -> Any:
    data = None if body is None else json.dumps(body).encode()
    answer = ask(port, method, path, data, {"Content-Type": media_type, "Accept": f"{JSON}, application/json"})
    assert answer.status in (200, 201, 204), (method, path, answer)
    return answer.json() if answer.body else None


def create_topic(cluster: EmbeddedCluster, name: str) -> str:
    """Partition 0 at node 1, partition 1 at node 2."""
    admin = AdminClient({"bootstrap.servers": cluster.brokers[0].bootstrap_servers, "log_level": 0})
    new = NewTopic(name, 2, replica_assignment=[[1], [2]])
    admin.create_topics([new], operation_timeout=30)[name].result(60)
    wait_until(lambda: all(name in broker.node.metadata.topics for broker in cluster.brokers), "the topic at all nodes")
    return name


def v3_path(cluster: EmbeddedCluster) -> str:
    return f"/v3/clusters/{cluster.brokers[0].node.metadata.cluster_id}"


def read(port: int, path: str, how_many: int) -> list[int]:
    values: list[int] = []

    def enough() -> bool:
        values.extend(each["value"] for each in call(port, "GET", f"{path}/records?timeout=500"))
        return len(values) >= how_many

    wait_until(enough, lambda: f"{how_many} records, got {values}", 30)
    return sorted(values)


def test_records_go_to_every_leader(cluster: EmbeddedCluster) -> None:
    topic = create_topic(cluster, "written")
    for port in map(door_of, cluster.brokers):
        records = [{"value": number, "partition": number % 2} for number in range(4)]
        answer = call(port, "POST", f"/topics/{topic}", {"records": records}, JSON)
        assert [each["error_code"] for each in answer["offsets"]] == [None] * 4
        one = {"partition_id": 1, "value": {"type": "JSON", "data": 5}}
        call(port, "POST", f"{v3_path(cluster)}/topics/{topic}/records", one)
    for port in map(door_of, cluster.brokers):
        for index, values in ((0, [0, 2] * 2), (1, [1, 3, 5] * 2)):
            offsets = call(port, "GET", f"/topics/{topic}/partitions/{index}/offsets")
            assert offsets == {"beginning_offset": 0, "end_offset": len(values)}
            found = call(port, "GET", f"/topics/{topic}/partitions/{index}/records?offset=0&timeout=0")
            assert [each["value"] for each in found] == values


def test_any_node_administers(cluster: EmbeddedCluster) -> None:
    base = v3_path(cluster)
    for number, port in enumerate(map(door_of, cluster.brokers)):
        name = f"administered-{number}"
        call(port, "POST", f"{base}/topics", {"topic_name": name, "partitions_count": 1})
        call(port, "PUT", f"{base}/topics/{name}/configs/retention.ms", {"value": "1000"})
        assert call(port, "GET", f"{base}/topics/{name}/configs/retention.ms")["value"] == "1000"
        for node in (1, 2):
            config = f"{base}/brokers/{node}/configs"
            [found] = [each for each in call(port, "GET", config)["data"] if each["name"] == "node.id"]
            assert found["value"] == str(node)
            call(port, "PUT", f"{config}/log.index.interval.bytes", {"value": str(2048 + node)})
            value = call(port, "GET", f"{config}/log.index.interval.bytes")["value"]
            assert value == str(2048 + node)
        call(port, "DELETE", f"{base}/topics/{name}")


def test_groups_are_coordinated_anywhere(cluster: EmbeddedCluster) -> None:
    """Six groups over eight partitions of offsets at two nodes: some of them are at the other one."""
    topic = create_topic(cluster, "consumed")
    first, second = map(door_of, cluster.brokers)
    records = [{"value": number, "partition": number % 2} for number in range(4)]
    call(first, "POST", f"/topics/{topic}", {"records": records}, JSON)
    groups = [f"group-{number}" for number in range(6)]
    base = v3_path(cluster)
    coordinators = set()
    for group in groups:
        settings = {"name": "a", "format": "json", "auto.offset.reset": "earliest", "auto.commit.enable": "false"}
        path = call(first, "POST", f"/consumers/{group}", settings)["base_uri"].removeprefix(
            f"http://127.0.0.1:{first}"
        )
        call(first, "POST", f"{path}/subscription", {"topics": [topic]})
        assert read(first, path, 4) == [0, 1, 2, 3]
        call(first, "POST", f"{path}/offsets")
        missing = ask(second, "GET", f"{path}/records")
        assert (missing.status, missing.json()["error_code"]) == (404, 40403)
        for port in (first, second):
            [member] = call(port, "GET", f"{base}/consumer-groups/{group}/consumers")["data"]
            assert member["client_id"] == "http"
            summary = call(port, "GET", f"{base}/consumer-groups/{group}/lag-summary")
            assert (summary["total_lag"], summary["max_lag_consumer_id"]) == (0, member["consumer_id"])
        coordinators.add(call(first, "GET", f"{base}/consumer-groups/{group}")["coordinator"]["related"][-1])
        call(first, "DELETE", path)
    assert coordinators == {"1", "2"}
    for port in (first, second):
        listed = call(port, "GET", f"{base}/consumer-groups")["data"]
        assert {each["consumer_group_id"] for each in listed} >= set(groups)


def test_consumers_commit_and_leave_when_their_node_stops() -> None:
    with Broker(SETTINGS) as broker:
        port = door_of(broker)
        call(port, "POST", "/topics/left", {"records": [{"value": 1}]}, JSON)
        settings = {"name": "a", "format": "json", "auto.offset.reset": "earliest", "auto.commit.enable": "true"}
        call(port, "POST", "/consumers/shop", settings)
        call(port, "POST", "/consumers/shop/instances/a/subscription", {"topics": ["left"]})
        assert read(port, "/consumers/shop/instances/a", 1) == [1]
        broker.restart()
        path = f"/v3/clusters/{broker.node.metadata.cluster_id}/consumer-groups/shop"
        assert call(door_of(broker), "GET", path)["state"] == "EMPTY"
        [lag] = call(door_of(broker), "GET", f"{path}/lags")["data"]
        assert (lag["current_offset"], lag["lag"]) == (1, 0)
