"""What holds for every call: health, reflection, limits, slow clients, and a node that stops."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tests.conformance.grpc.door_process import DoorProcess
from tests.conformance.grpc.stubs import Client, refusal
from tests.waiting import wait_until

from tidelog.gateways.grpc.generated import mq_pb2 as mq
from tidelog.gateways.grpc.generated import tidelog_pb2 as v1

SERVICES = ("mq.MessageQueue", "api.Kafka", "tidelog.v1.Log")


@pytest.mark.parametrize("service", ["", *SERVICES])
def test_health(client: Client, service: str) -> None:
    stub = health_pb2_grpc.HealthStub(client.channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_reflection_describes_every_service(client: Client) -> None:
    found = ProtoReflectionDescriptorDatabase(client.channel)
    assert set(SERVICES) < set(found.get_services())
    for name in (*SERVICES, "grpc.health.v1.Health"):
        assert found.FindFileContainingSymbol(name).service


def test_a_message_that_is_too_large(client: Client, topic: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.mq.Produce(mq.ProduceRequest(topic=topic, value=b"x" * 9 * 1024 * 1024))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_bytes_that_are_no_message(client: Client) -> None:
    call = client.channel.unary_unary("/mq.MessageQueue/Produce")
    with pytest.raises(grpc.RpcError) as caught:
        call(b"\xff\xff\xff", timeout=5)
    assert refusal(caught.value) == ("INVALID_ARGUMENT", "INVALID_REQUEST")
    stream = client.channel.stream_unary("/mq.MessageQueue/ProduceStream")
    with pytest.raises(grpc.RpcError) as caught:
        stream(iter([b"\xff\xff\xff"]), timeout=5)
    assert refusal(caught.value) == ("INVALID_ARGUMENT", "INVALID_REQUEST")


def test_a_client_that_does_not_read_slows_only_itself(client: Client, topic: str) -> None:
    records = [v1.Record(value=b"x" * 10_000)] * 80
    for _ in range(40):
        client.log.Produce(v1.ProduceRequest(topic=topic, partition=0, records=records))
    starts = [v1.Start(topic=topic, partition=0, offset=-2)]
    stuck = client.log.Subscribe(v1.SubscribeRequest(partitions=starts, max_records=10))
    next(stuck)
    other = client.log.Subscribe(v1.SubscribeRequest(partitions=starts, max_records=100))
    offset = 0
    for message in other:
        assert message.records[0].offset == offset
        offset = message.next_offset
        if offset == 3200:
            break
    other.cancel()
    assert sum(len(message.records) for message in islice(stuck, 319)) == 3190
    stuck.cancel()


def test_a_node_that_stops_ends_its_streams_and_comes_back(tmp_path: Path) -> None:
    node = DoorProcess(tmp_path)
    node.start()
    client = Client(node.grpc_port)
    client.mq.Produce(mq.ProduceRequest(topic="t", value=b"v", acks=-1))
    stream = client.mq.Subscribe(mq.SubscribeRequest(topic="t", group_id="g", start_offset=-2))
    assert next(stream).value == b"v"
    begun_s = time.monotonic()
    node.end()
    assert time.monotonic() - begun_s < 6
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    assert "Traceback" not in node.log_text()
    node.start()

    def reads_again() -> bool:
        try:
            return bool(client.mq.Consume(mq.ConsumeRequest(topic="t")).messages[0].value == b"v")
        except grpc.RpcError:
            return False

    wait_until(reads_again, "the same client reads again", 10)
    groups = client.log.DescribeGroup(v1.DescribeGroupRequest(group_id="g"))
    assert list(groups.members) == [], "the member left when its node stopped"
    client.close()
    node.end()
