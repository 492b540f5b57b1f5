"""`api.Kafka` producers with an id and sequence numbers of their own: a record that is sent again is there once."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import confluent_kafka
import grpc
import pytest
from tests.conformance.grpc.door_cluster import Nodes, three_nodes
from tests.conformance.grpc.door_process import DoorProcess
from tests.conformance.grpc.stubs import Client, refused
from tests.waiting import wait_until

from tidelog.gateways.grpc.generated import api_pb2 as api
from tidelog.gateways.grpc.generated import mq_pb2 as mq
from tidelog.gateways.grpc.generated import tidelog_pb2 as v1

ID_MAX = 2**62 - 1
NUMBER_MAX = 2**46 - 1


def numbered(topic: str, number: int, producer_id: int = 7) -> api.ProduceRequest:
    value = b"%d of %d" % (number, producer_id)
    return api.ProduceRequest(topic=topic, value=value, ack=api.ALL, producer_id=producer_id, sequence_number=number)


def offset(client: Client, request: api.ProduceRequest) -> int:
    answer = client.api.Produce(request)
    assert answer.error_code == api.OK
    return int(answer.offset)


def values(client: Client, topic: str) -> list[bytes]:
    return [each.value for each in client.mq.Consume(mq.ConsumeRequest(topic=topic)).messages]


def test_duplicates_and_gaps(client: Client, topic: str) -> None:
    assert [offset(client, numbered(topic, number)) for number in (0, 1, 5, 2**40)] == [0, 1, 2, 3]
    assert [offset(client, numbered(topic, number)) for number in (2**40, 4, 0)] == [3, -1, -1]
    assert offset(client, numbered(topic, 2**40 + 1)) == 4
    assert len(values(client, topic)) == 5


def test_producers_and_partitions_are_apart(client: Client, topic: str) -> None:
    first, second, largest = numbered(topic, 3, 1), numbered(topic, 3, 2), numbered(topic, NUMBER_MAX, ID_MAX)
    for _ in range(2):
        assert [offset(client, each) for each in (first, second, largest)] == [0, 1, 2]
    first.partition = 1
    assert offset(client, first) == 0
    first.producer_id = 0
    assert [offset(client, first) for _ in range(2)] == [1, 2], "producer_id 0 is not deduplicated"


def test_the_same_record_at_once_is_there_once(client: Client, topic: str) -> None:
    with ThreadPoolExecutor(20) as pool:
        found = set(pool.map(lambda _: offset(client, numbered(topic, 1)), range(100)))
    assert found == {0}
    assert len(values(client, topic)) == 1


def test_without_acks_it_counts_too(client: Client, topic: str) -> None:
    unanswered = numbered(topic, 4)
    unanswered.ack = api.NONE
    assert [offset(client, unanswered) for _ in range(2)] == [-1, -1]
    assert offset(client, numbered(topic, 4)) == 0


@pytest.mark.parametrize(
    ("producer_id", "number"), [(ID_MAX + 1, 0), (2**64 - 1, 0), (1, -1), (1, NUMBER_MAX + 1), (1, 2**63 - 1)]
)
def test_what_does_not_fit_is_refused(client: Client, topic: str, producer_id: int, number: int) -> None:
    expected = ("INVALID_ARGUMENT", "INVALID_REQUEST")
    assert refused(client.api.Produce, numbered(topic, number, producer_id)) == expected
    assert values(client, topic) == []


def test_producers_of_kafka_are_not_touched(client: Client, door: DoorProcess, topic: str) -> None:
    """Theirs are other ids, and `tidelog.v1` does not take these either."""
    offset(client, numbered(topic, (3 << 31) + 9))
    producer = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{door.port}", "enable.idempotence": True})
    producer.produce(topic, b"kafka", partition=0)
    assert producer.flush(20) == 0
    assert values(client, topic)[1:] == [b"kafka"]
    made = client.log.InitProducer(v1.InitProducerRequest())
    assert made.producer_id < 2**62
    state = v1.ProducerState(producer_id=2**62 + 7, producer_epoch=4)
    asked = v1.ProduceRequest(topic=topic, partition=0, records=[v1.Record(value=b"v")], producer=state)
    assert refused(client.log.Produce, asked)[0] == "INVALID_ARGUMENT", "these ids belong to api.Kafka"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_numbers_are_remembered_over_a_restart(tmp_path: Path, number: signal.Signals) -> None:
    node = DoorProcess(tmp_path)
    node.start()
    client = Client(node.grpc_port)
    for producer_id in (1, 2):
        for each in (2, 9 << 31):
            offset(client, numbered("kept", each, producer_id))
    client.close()
    node.end(number)
    node.start()
    client = Client(node.grpc_port)
    assert [offset(client, numbered("kept", 9 << 31, producer_id)) for producer_id in (1, 2)] == [1, 3]
    assert offset(client, numbered("kept", 3, 1)) == -1
    assert offset(client, numbered("kept", (9 << 31) + 5, 1)) == 4
    assert len(values(client, "kept")) == 5
    client.close()
    node.end()


def test_numbers_are_remembered_by_the_next_leader(tmp_path: Path) -> None:
    with three_nodes(tmp_path) as nodes:
        survive_the_leader(nodes)


def survive_the_leader(nodes: Nodes) -> None:
    """Each record is sent until it is answered, and once more; the leader is killed in between."""
    nodes.create("led", 1, 3)
    killed = nodes.leader("led", 1)
    for number in range(0, 20, 2):
        produce_at_last(nodes, numbered("led", number))
    nodes.processes[killed].end(signal.SIGKILL)
    nodes.clients.pop(killed).close()
    for number in (*range(10, 40, 2), *range(12)):
        produce_at_last(nodes, numbered("led", number))
    [survivor, _] = nodes.clients.values()
    wait_until(lambda: len(values(survivor, "led")) >= 20, "the records are there", 20)
    assert values(survivor, "led") == [b"%d of 7" % number for number in range(0, 40, 2)]
    assert produce_at_last(nodes, numbered("led", 38)) == 19


def produce_at_last(nodes: Nodes, request: api.ProduceRequest) -> int:
    """As a client of this service does it: go where NOT_LEADER points, and try again when there is no answer."""
    ports = {process.grpc_port: node_id for node_id, process in nodes.processes.items()}
    asked = next(iter(nodes.clients))
    found: list[int] = []

    def attempt() -> bool:
        nonlocal asked
        try:
            answer = nodes.clients[asked].api.Produce(request, 15)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
            return False
        if answer.error_code == api.NOT_LEADER:
            leader = ports[int(answer.leader_addr.rpartition(":")[2])]
            asked = leader if leader in nodes.clients else asked
            return False
        found.append(answer.offset)
        return True

    wait_until(attempt, "a record is appended", 40)
    return found[0]
