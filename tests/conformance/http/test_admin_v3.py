"""Administration in the shape of REST v3, beside a Kafka client on the same node."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from tests.conformance.http.conftest import HttpNode
from tests.servers.http import HttpAnswer, post
from tests.servers.openapi import DocumentedDoor
from tests.servers.topics import create_topic
from tests.servers.wire import Connection
from tests.waiting import wait_until

from tidelog.model import limits

_numbers = count()


class Cluster:
    """Paths below the cluster of the node."""

    def __init__(self, door: DocumentedDoor) -> None:
        self.door = door
        [found] = door.ask("GET", "/v3/clusters").json()["data"]
        self.id: str = found["cluster_id"]
        self.host = f"http://127.0.0.1:{door.port}"
        self.base = f"{self.host}/v3/clusters/{self.id}"

    def ask(self, method: str, path: str, body: object = None) -> HttpAnswer:
        return self.door.ask(method, f"/v3/clusters/{self.id}{path}", body, {"Content-Type": "application/json"})

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer.body
        return answer.json()

    def data(self, path: str) -> list[Any]:
        """Of a collection. Each resource is the one that its own link leads to."""
        found = self.get(path)
        assert found["kind"].endswith("List")
        assert found["metadata"] == {"self": f"{self.base}{path}", "next": None}
        data: list[Any] = found["data"]
        for each in data[:3]:
            assert self.follow(each["metadata"]["self"]) == each
        return data

    def follow(self, link: str) -> Any:
        assert link.startswith(self.host), link
        answer = self.door.ask("GET", link.removeprefix(self.host))
        assert answer.status == 200, answer.body
        return answer.json()

    def error_code(self, method: str, path: str, body: object = None) -> int:
        answer = self.ask(method, path, body)
        error = answer.json()
        assert answer.status == error["error_code"] // (100 if error["error_code"] >= 1000 else 1)
        assert error["message"]
        return int(error["error_code"])


@pytest.fixture(scope="module")
def cluster(http_node: HttpNode) -> Cluster:
    return Cluster(DocumentedDoor(http_node.port))


@pytest.fixture
def topic(kafka_door: Connection) -> str:
    return create_topic(kafka_door, "admin", partitions=2)


def new_name(prefix: str) -> str:
    return f"{prefix}-{next(_numbers)}-{time.monotonic_ns()}"


# -- cluster and brokers -----------------------------------------------------------------------------------------------


def test_the_cluster_and_its_broker(cluster: Cluster, http_node: HttpNode) -> None:
    described = cluster.get("")
    assert described["kind"] == "KafkaCluster"
    assert described["metadata"] == {"self": cluster.base, "resource_name": f"crn:///kafka={cluster.id}"}
    assert described["topics"] == {"related": f"{cluster.base}/topics"}
    [broker] = cluster.data("/brokers")
    assert (broker["broker_id"], broker["host"], broker["port"]) == (1, "127.0.0.1", http_node.broker.port)
    assert cluster.follow(described["controller"]["related"]) == broker
    assert cluster.follow(broker["configs"]["related"])["kind"] == "KafkaBrokerConfigList"
    assert cluster.follow(broker["partition_replicas"]["related"])["kind"] == "KafkaReplicaList"


def test_another_cluster_is_not_here(cluster: Cluster) -> None:
    answer = cluster.door.ask("GET", "/v3/clusters/another/topics")
    assert (answer.status, answer.json()["error_code"]) == (404, 404)


# -- topics ------------------------------------------------------------------------------------------------------------


def test_a_topic_is_created_described_and_deleted(cluster: Cluster, http_node: HttpNode) -> None:
    name = new_name("v3")
    body = {
        "topic_name": name,
        "partitions_count": 3,
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "60000"}],
    }
    dry = cluster.ask("POST", "/topics", {**body, "validate_only": True})
    assert (dry.status, dry.json()["partitions_count"]) == (200, 3)
    assert cluster.ask("GET", f"/topics/{name}").status == 404
    created = cluster.ask("POST", "/topics", body)
    assert created.status == 201
    assert created.headers["location"] == f"{cluster.base}/topics/{name}"
    topic = cluster.get(f"/topics/{name}")
    assert created.json() == topic
    assert topic["metadata"]["resource_name"] == f"crn:///kafka={cluster.id}/topic={name}"
    assert (topic["partitions_count"], topic["replication_factor"], topic["is_internal"]) == (3, 1, False)
    assert topic in cluster.data("/topics")
    assert cluster.follow(topic["configs"]["related"])["kind"] == "KafkaTopicConfigList"
    assert len(AdminClient({"bootstrap.servers": http_node.bootstrap}).list_topics(name).topics[name].partitions) == 3
    assert cluster.error_code("POST", "/topics", body) == 40002
    assert cluster.ask("DELETE", f"/topics/{name}").status == 204
    assert cluster.error_code("DELETE", f"/topics/{name}") == 40403
    assert cluster.error_code("GET", f"/topics/{name}") == 40403


def test_replicas_are_placed_by_hand(cluster: Cluster) -> None:
    name = new_name("v3")
    assignments = [{"partition_id": 0, "broker_ids": [1]}, {"partition_id": 1, "broker_ids": [1]}]
    answer = cluster.ask("POST", "/topics", {"topic_name": name, "replicas_assignments": assignments})
    assert (answer.status, answer.json()["partitions_count"]) == (201, 2)


def test_a_topic_gets_more_partitions(cluster: Cluster, topic: str) -> None:
    answer = cluster.ask("PATCH", f"/topics/{topic}", {"partitions_count": 4})
    assert (answer.status, answer.json()["partitions_count"]) == (200, 4)
    assert cluster.error_code("PATCH", f"/topics/{topic}", {"partitions_count": 3}) == 40002
    assert cluster.error_code("PATCH", f"/topics/{topic}", {}) == 422
    assert cluster.error_code("PATCH", "/topics/no-such-topic", {"partitions_count": 3}) == 40403


def test_partitions_and_replicas(cluster: Cluster, topic: str) -> None:
    path = f"/topics/{topic}/partitions"
    partitions = cluster.data(path)
    assert [each["partition_id"] for each in partitions] == [0, 1]
    [replica] = cluster.data(f"{path}/1/replicas")
    assert (replica["broker_id"], replica["is_leader"], replica["is_in_sync"]) == (1, True, True)
    assert cluster.follow(partitions[1]["leader"]["related"]) == replica
    assert replica in cluster.get("/brokers/1/partition-replicas")["data"]
    assert cluster.error_code("GET", f"{path}/2") == 40402
    assert cluster.error_code("GET", f"{path}/0/replicas/7") == 404
    assert cluster.error_code("GET", f"{path}/x") == 400
    assert cluster.error_code("GET", "/brokers/7") == 404
    assert cluster.error_code("GET", "/brokers/7/partition-replicas") == 404


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", 400),
        ([], 422),
        ({}, 422),
        ({"topic_name": 1}, 422),
        ({"topic_name": "a\ud800"}, 422),
        ({"topic_name": "a b"}, 40002),
        ({"topic_name": "v3-wrong", "partitions_count": "1"}, 422),
        ({"topic_name": "v3-wrong", "partitions_count": 0}, 40002),
        ({"topic_name": "v3-wrong", "partitions_count": 2**40}, 422),
        ({"topic_name": "v3-wrong", "replication_factor": 7}, 40002),
        ({"topic_name": "v3-wrong", "replication_factor": 70_000}, 422),
        ({"topic_name": "v3-wrong", "configs": [{"name": "no.such.setting", "value": "1"}]}, 40002),
        ({"topic_name": "v3-wrong", "configs": [{"value": "1"}]}, 422),
        ({"topic_name": "v3-wrong", "replicas_assignments": [{"partition_id": 0}]}, 422),
        ({"topic_name": "v3-wrong", "replicas_assignments": [{"partition_id": 0, "broker_ids": ["x"]}]}, 422),
    ],
)
def test_topics_that_cannot_be(cluster: Cluster, body: object, code: int) -> None:
    assert cluster.error_code("POST", "/topics", body) == code


# -- settings ----------------------------------------------------------------------------------------------------------


def test_settings_of_a_topic(cluster: Cluster, http_node: HttpNode, topic: str) -> None:
    path = f"/topics/{topic}/configs"
    before = cluster.get(f"{path}/retention.ms")
    assert (before["value"], before["is_default"], before["source"]) == ("604800000", True, "DEFAULT_CONFIG")
    assert cluster.ask("PUT", f"{path}/retention.ms", {"value": "1000"}).status == 204
    after = cluster.get(f"{path}/retention.ms")
    assert (after["value"], after["is_default"], after["source"]) == ("1000", False, "DYNAMIC_TOPIC_CONFIG")
    assert after["synonyms"][0] == {"name": "retention.ms", "value": "1000", "source": "DYNAMIC_TOPIC_CONFIG"}
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": http_node.bootstrap})
    assert admin.describe_configs([resource])[resource].result(20)["retention.ms"].value == "1000"
    changes = [
        {"name": "retention.ms", "operation": "DELETE"},
        {"name": "cleanup.policy", "value": "delete"},
        {"name": "cleanup.policy", "operation": "APPEND", "value": "compact"},
    ]
    assert cluster.ask("POST", f"{path}:alter", {"data": changes[:2], "validate_only": True}).status == 204
    assert cluster.get(f"{path}/retention.ms") == after
    assert cluster.ask("POST", f"{path}:alter", {"data": [changes[0], changes[2]]}).status == 204
    assert cluster.get(f"{path}/retention.ms") == before
    assert cluster.get(f"{path}/cleanup.policy")["value"] == "delete,compact"
    assert cluster.ask("DELETE", f"{path}/cleanup.policy").status == 204
    assert {each["name"] for each in cluster.data(path)} >= {"retention.ms", "cleanup.policy"}


def test_settings_of_all_brokers_and_of_one(cluster: Cluster) -> None:
    name = "log.index.interval.bytes"
    assert cluster.ask("PUT", f"/broker-configs/{name}", {"value": "8192"}).status == 204
    try:
        [dynamic] = [each for each in cluster.data("/broker-configs") if each["name"] == name]
        assert (dynamic["value"], dynamic["config_type"]) == ("8192", "BROKER")
        own = cluster.get(f"/brokers/1/configs/{name}")
        assert (own["value"], own["source"], own["broker_id"]) == ("8192", "DYNAMIC_DEFAULT_BROKER_CONFIG", 1)
        assert cluster.ask("PUT", f"/brokers/1/configs/{name}", {"value": "2048"}).status == 204
        assert cluster.get(f"/brokers/1/configs/{name}")["value"] == "2048"
        assert cluster.ask("DELETE", f"/brokers/1/configs/{name}").status == 204
    finally:
        assert cluster.ask("DELETE", f"/broker-configs/{name}").status == 204
    assert cluster.error_code("GET", f"/broker-configs/{name}") == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/topics/no-such-topic/configs", None, 40403),
        ("GET", "/topics/{}/configs/no.such.setting", None, 404),
        ("PUT", "/topics/{}/configs/no.such.setting", {"value": "1"}, 40002),
        ("PUT", "/topics/{}/configs/retention.ms", {"value": "soon"}, 40002),
        ("PUT", "/topics/{}/configs/retention.ms", {"value": 1}, 422),
        ("PUT", "/topics/{}/configs/retention.ms", {"value": None}, 40002),
        ("POST", "/topics/{}/configs:alter", {}, 422),
        ("POST", "/topics/{}/configs:alter", {"data": [{"value": "1"}]}, 422),
        ("POST", "/topics/{}/configs:alter", {"data": [{"name": "retention.ms", "operation": "ADD"}]}, 422),
        ("GET", "/brokers/7/configs", None, 404),
        ("PUT", "/brokers/7/configs/compression.type", {"value": "gzip"}, 404),
        ("PUT", "/broker-configs/no.such.setting", {"value": "1"}, 40002),
    ],
)
def test_settings_that_cannot_be(cluster: Cluster, topic: str, method: str, path: str, body: object, code: int) -> None:
    assert cluster.error_code(method, path.format(topic), body) == code


# -- groups ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["classic", "consumer"])
def client(http_node: HttpNode, cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Consumer]:
    """A member that has read one of three records of a partition and committed."""
    name = new_name(f"group-{request.param}")
    assert cluster.ask("POST", "/topics", {"topic_name": name, "partitions_count": 1}).status == 201
    for number in range(3):
        assert cluster.ask("POST", f"/topics/{name}/records", {"value": {"type": "JSON", "data": number}}).status == 200
    consumer = Consumer(
        {
            "bootstrap.servers": http_node.bootstrap,
            "group.id": name,
            "client.id": "reader",
            "group.protocol": request.param,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([name])
    message: list[Message] = []
    wait_until(lambda: bool(message.__iadd__(consumer.consume(1, timeout=0.5))), "a record", 30)
    consumer.commit(message=message[0], asynchronous=False)
    yield consumer
    consumer.close()


def test_a_group_its_member_and_its_lag(cluster: Cluster, client: Consumer) -> None:
    topic = client.assignment()[0].topic
    path = f"/consumer-groups/{topic}"
    group = cluster.get(path)
    assert (group["state"], group["is_simple"]) == ("STABLE", False)
    assert group["partition_assignor"] in ("range", "uniform")
    assert group in cluster.get("/consumer-groups")["data"]
    assert cluster.follow(group["coordinator"]["related"])["broker_id"] == 1
    [member] = cluster.data(f"{path}/consumers")
    assert (member["client_id"], member["instance_id"]) == ("reader", None)
    assert member["consumer_id"] == client.memberid()
    [assignment] = cluster.follow(member["assignments"]["related"])["data"]
    assert (assignment["topic_name"], assignment["partition_id"]) == (topic, 0)
    [lag] = cluster.data(f"{path}/lags")
    assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (1, 3, 2)
    assert (lag["consumer_id"], lag["client_id"]) == (client.memberid(), "reader")
    assert cluster.follow(assignment["lag"]["related"]) == lag
    summary = cluster.follow(group["lag_summary"]["related"])
    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_topic_name"]) == (2, 2, topic)
    assert cluster.follow(summary["max_lag_consumer"]["related"]) == member
    assert cluster.error_code("GET", f"{path}/lags/{topic}/partitions/7") == 404
    assert cluster.error_code("GET", f"{path}/consumers/nobody") == 404
    assert cluster.error_code("GET", f"{path}/consumers/nobody/assignments") == 404


def test_a_group_without_members(cluster: Cluster, http_node: HttpNode, topic: str) -> None:
    name = new_name("offsets-only")
    consumer = Consumer({"bootstrap.servers": http_node.bootstrap, "group.id": name})
    consumer.commit(offsets=[TopicPartition(topic, 1, 0)], asynchronous=False)
    consumer.close()
    group = cluster.get(f"/consumer-groups/{name}")
    assert (group["state"], group["is_simple"]) == ("EMPTY", True)
    [lag] = cluster.data(f"/consumer-groups/{name}/lags")
    assert (lag["partition_id"], lag["lag"], lag["consumer_id"]) == (1, 0, "")
    assert cluster.ask("DELETE", f"/topics/{topic}").status == 204
    wait_until(lambda: cluster.get(f"/consumer-groups/{name}/lags")["data"] == [], "no lag of a deleted topic")


@pytest.mark.parametrize("rest", ["", "/consumers", "/lags", "/lag-summary", "/lags/a/partitions/0"])
def test_groups_that_are_not_there(cluster: Cluster, rest: str) -> None:
    assert cluster.error_code("GET", f"/consumer-groups/nobody{rest}") == 404


# -- records -----------------------------------------------------------------------------------------------------------


def test_a_record_of_every_type(cluster: Cluster, http_node: HttpNode, topic: str) -> None:
    body = {
        "partition_id": 1,
        "headers": [{"name": "trace", "value": "YQ=="}, {"name": "none", "value": None}],
        "key": {"type": "STRING", "data": "alice"},
        "value": {"type": "JSON", "data": {"clicks": 3}},
        "timestamp": "2021-02-05T19:14:42Z",
    }
    answer = cluster.ask("POST", f"/topics/{topic}/records", body)
    assert answer.status == 200
    assert answer.json() == {
        "error_code": 200,
        "cluster_id": cluster.id,
        "topic_name": topic,
        "partition_id": 1,
        "offset": 0,
        "timestamp": "2021-02-05T19:14:42.000+00:00",
        "key": {"type": "STRING", "size": 5},
        "value": {"type": "JSON", "size": 12},
    }
    binary = {"partition_id": 1, "value": {"type": "BINARY", "data": base64.b64encode(b"\x00\xff").decode()}}
    assert cluster.ask("POST", f"/topics/{topic}/records", binary).json()["offset"] == 1
    consumer = Consumer({"bootstrap.servers": http_node.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 1, 0)])
    first, second = consumer.consume(2, timeout=20)
    consumer.close()
    assert (first.key(), first.value()) == (b"alice", b'{"clicks":3}')
    assert first.headers() == [("trace", b"a"), ("none", None)]
    assert first.timestamp()[1] == 1_612_552_482_000
    assert (second.key(), second.value()) == (None, b"\x00\xff")


def test_several_records_in_one_body(cluster: Cluster, topic: str) -> None:
    records: list[dict[str, Any]] = [
        {"partition_id": 0, "value": {"type": "JSON", "data": 1}},
        {"partition_id": 9, "value": {"type": "JSON", "data": 2}},
        {"partition_id": 0, "value": {"type": "STRING", "data": 3}},
        {"partition_id": 0, "value": {"type": "JSON", "data": 4}},
    ]
    body = "\n".join(json.dumps(record) for record in records).encode()
    path = f"/v3/clusters/{cluster.id}/topics/{topic}/records"
    answer = post(cluster.door.port, path, body, {"Content-Type": "application/json"})
    reports = [json.loads(line) for line in answer.body.splitlines()]
    assert [each["error_code"] for each in reports] == [200, 40402, 422, 200]
    assert [each.get("offset") for each in reports] == [0, None, None, 1]


def test_a_stream_of_records_has_its_reports_while_it_comes(cluster: Cluster, topic: str) -> None:
    path = f"/v3/clusters/{cluster.id}/topics/{topic}/records"
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"

    def chunk(text: str) -> bytes:
        return b"%x\r\n%b\r\n" % (len(text), text.encode())

    with socket.create_connection(("127.0.0.1", cluster.door.port), timeout=20) as connection:
        received = connection.makefile("rb")
        connection.sendall(head.encode())
        record = json.dumps({"partition_id": 0, "value": {"type": "STRING", "data": "{}"}})
        for offset in range(3):
            connection.sendall(chunk(record[:20]) + chunk(record[20:]))
            line = next(line for line in received if line.startswith(b"{"))
            assert json.loads(line)["offset"] == offset
        connection.sendall(chunk('{"partition_id": 9} 1') + b"0\r\n\r\n")
        codes = [json.loads(line)["error_code"] for line in received if line.startswith(b"{")]
    assert codes == [40402, 422]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 422),
        (b"{", 400),
        (b"\xff", 400),
        (b"{}" * (limits.HTTP_V3_RECORDS_MAX + 1), 413),
        ([], 422),
        ({"partition_id": 9}, 40402),
        ({"partition_id": -1}, 40402),
        ({"value": {"type": "AVRO", "data": 1}}, 400),
        ({"value": {"data": 1}}, 400),
        ({"value": 1}, 422),
        ({"value": {"type": "BINARY", "data": "?"}}, 422),
        ({"value": {"type": "STRING", "data": 1}}, 422),
        ({"headers": [{"value": "YQ=="}]}, 422),
        ({"headers": [{"name": "a", "value": 1}]}, 422),
        ({"timestamp": "yesterday"}, 422),
        ({"timestamp": "0001-01-01T00:00:00Z"}, 422),
        ({"value": {"type": "STRING", "data": "x" * 2_000_000}}, 413),
    ],
)
def test_records_that_cannot_be(cluster: Cluster, topic: str, body: object, code: int) -> None:
    assert cluster.error_code("POST", f"/topics/{topic}/records", body) == code
