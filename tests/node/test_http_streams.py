"""Streams in a cluster, at a node that does not lead what is read and written."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.servers.http import ask
from tests.waiting import wait_until

from tidelog.testing.broker import Broker
from tidelog.testing.embedded_cluster import EmbeddedCluster

NDJSON = "application/x-ndjson"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, {"http.listen": "127.0.0.1:0"}) as running:
        yield running


def door_of(broker: Broker) -> int:
    endpoint = broker.node.metadata.brokers[broker.node.config.node_id].gateway("HTTP")
    assert endpoint is not None
    return endpoint.port


def create(cluster: EmbeddedCluster, name: str, assignment: list[list[int]]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    new = NewTopic(name, len(assignment), replica_assignment=assignment)
    admin.create_topics([new], operation_timeout=30)[name].result(30)
    wait_until(
        lambda: all(name in broker.node.metadata.topics for broker in cluster.brokers if broker.is_running),
        "the topic known to all nodes",
    )


def send(port: int, topic: str, values: list[str], **fields: Any) -> list[dict[str, Any]]:
    body = b"".join([json.dumps({"value": each, **fields}).encode() + b"\n" for each in values])
    answer = ask(port, "POST", f"/topics/{topic}", body, {"Content-Type": NDJSON})
    assert answer.status == 200, answer.body
    return [json.loads(line) for line in answer.body.splitlines()]


@contextlib.contextmanager
def stream_of(port: int, path: str) -> Iterator[Iterator[dict[str, Any]]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={"Accept": NDJSON})
    response = connection.getresponse()
    assert response.status == 200, response.read()

    def records() -> Iterator[dict[str, Any]]:
        while line := response.readline():
            if line.strip():
                yield json.loads(line)

    try:
        yield records()
    finally:
        response.close()
        connection.close()


def test_any_node_streams_every_partition_in_and_out(cluster: EmbeddedCluster) -> None:
    create(cluster, "everywhere", [[1, 2], [2, 3], [3, 1], [2, 3]])
    for broker in cluster.brokers:
        port = door_of(broker)
        name = f"from-{port}"
        answers = [answer for index in range(4) for answer in send(port, "everywhere", [name] * 10, partition=index)]
        assert all("offset" in each for each in answers), answers
    for broker in cluster.brokers:
        path = "/topics/everywhere/stream?offset=0&encoding=text"
        with stream_of(door_of(broker), path) as records:
            found = [next(records) for _ in range(120)]
            for index in range(4):
                in_order = [each["offset"] for each in found if each["partition"] == index]
                assert in_order == list(range(30))


def test_a_stream_goes_on_with_a_new_leader(cluster: EmbeddedCluster) -> None:
    create(cluster, "moving", [[3, 2]])
    first, second, third = cluster.brokers
    port = door_of(first)
    path = "/topics/moving/stream?offset=0&encoding=text"
    with stream_of(port, path) as records, stream_of(door_of(second), path) as other:
        send(port, "moving", ["before"])
        assert [next(each)["value"] for each in (records, other)] == ["before", "before"]
        third.stop()
        try:
            [answer] = send(port, "moving", ["after"])
            assert answer == {"partition": 0, "offset": 1}
            assert [next(each)["value"] for each in (records, other)] == ["after", "after"]
        finally:
            third.start()
