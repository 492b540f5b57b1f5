"""The HTTP doors of a cluster: requests that another node has to answer, and replicas that lag."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.servers.http import HttpAnswer, get, post
from tests.waiting import wait_until

from tidelog.testing.broker import Broker
from tidelog.testing.embedded_cluster import EmbeddedCluster

DEADLINE_S = 60.0
NODES = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(NODES, {"http.listen": "127.0.0.1:0"}) as running:
        yield running


def door_of(broker: Broker) -> int:
    """The port of its HTTP door, as the cluster knows it."""
    metadata = broker.node.metadata
    endpoint = metadata.brokers[broker.node.config.node_id].gateway("HTTP")
    assert endpoint is not None
    return endpoint.port


def create(brokers: list[Broker], name: str, replicas: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": brokers[0].bootstrap_servers, "log_level": 0})
    new = NewTopic(name, 1, replica_assignment=[replicas])
    admin.create_topics([new], operation_timeout=30)[name].result(DEADLINE_S)
    wait_until(lambda: all(name in broker.node.metadata.topics for broker in brokers), "the topic known to all nodes")


def path_of(answer: HttpAnswer, port: int) -> str:
    assert answer.status == 307, answer
    assert answer.body == b""
    prefix = f"http://127.0.0.1:{port}"
    assert answer.headers["location"].startswith(prefix)
    return answer.headers["location"].removeprefix(prefix)


def test_a_publish_is_sent_to_the_leader(cluster: EmbeddedCluster) -> None:
    create(cluster.brokers, "led", [2, 3])
    first, leader, follower = map(door_of, cluster.brokers)
    for port in (first, follower):
        answer = post(port, "/topics/led/partitions/0?acks=1&timeout=900", b"x")
        assert path_of(answer, leader) == "/topics/led/partitions/0?acks=1&timeout=900"
    assert post(leader, "/topics/led/partitions/0", b"x").json() == {"offset": 0}


def test_any_replica_answers_a_read_and_any_node_tells_of_the_partition(cluster: EmbeddedCluster) -> None:
    create(cluster.brokers, "read", [2, 3])
    first, leader, follower = map(door_of, cluster.brokers)
    assert post(leader, "/topics/read/partitions/0", b"x").status == 200
    expected = {"fromOffset": 0, "toOffset": 1, "records": [base64.b64encode(b"x").decode()]}
    for port in (leader, follower):
        assert get(port, "/topics/read/partitions/0/fetch?minOffset=0&wait=5000").json() == expected
    redirected = get(first, "/topics/read/partitions/0/fetch?minOffset=0&wait=5000")
    assert path_of(redirected, leader) == "/topics/read/partitions/0/fetch?minOffset=0&wait=5000"
    for port in (first, leader, follower):
        described = get(port, "/cluster/topics/read/partitions/0").json()
        assert (described["leader"], described["replicas"], described["endOffset"]) == (2, [2, 3], 1)


def test_a_follower_without_the_record_waits_and_then_sends_to_the_leader(cluster: EmbeddedCluster) -> None:
    create(cluster.brokers, "lagging", [2, 3])
    _, leader, follower = map(door_of, cluster.brokers)
    assert post(leader, "/topics/lagging/partitions/0", b"x").status == 200
    for query in ("minOffset=5&wait=300", "offset=5&wait=300"):
        started = time.monotonic()
        answer = get(follower, f"/topics/lagging/partitions/0/fetch?{query}")
        assert path_of(answer, leader).endswith(query)
        assert 0.25 < time.monotonic() - started < 8


def test_without_a_door_at_the_leader_the_request_is_forwarded() -> None:
    with (
        Broker({"node.id": 1}) as without,
        Broker(
            {
                "node.id": 2,
                "controller.quorum.bootstrap.servers": without.bootstrap_servers,
                "http.listen": "127.0.0.1:0",
            }
        ) as with_door,
    ):
        create([without, with_door], "forwarded", [1])
        port = door_of(with_door)
        assert post(port, "/topics/forwarded/partitions/0", b"x").json() == {"offset": 0}
        expected = {"fromOffset": 0, "toOffset": 1, "records": [base64.b64encode(b"x").decode()]}
        assert get(port, "/topics/forwarded/partitions/0/fetch?minOffset=0&wait=2000").json() == expected
        missing = get(port, "/topics/forwarded/partitions/0/fetch?minOffset=3&wait=100")
        assert (missing.status, missing.json()["kafkaError"]) == (416, "OFFSET_OUT_OF_RANGE")


def test_without_a_leader_there_is_no_answer_yet() -> None:
    with EmbeddedCluster(2, {"http.listen": "127.0.0.1:0"}) as cluster:
        create(cluster.brokers, "orphan", [2])
        port = door_of(cluster.brokers[0])
        cluster.brokers[1].stop()
        wait_until(
            lambda: cluster.brokers[0].node.metadata.topics["orphan"].partitions[0].leader < 0, "the leader missed"
        )
        for answer in (
            post(port, "/topics/orphan/partitions/0", b"x"),
            get(port, "/topics/orphan/partitions/0/fetch?wait=100"),
        ):
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.json()["kafkaError"] == "NOT_LEADER_OR_FOLLOWER"
        described = get(port, "/cluster/topics/orphan/partitions/0").json()
        assert (described["leader"], described["endOffset"]) == (None, None)
