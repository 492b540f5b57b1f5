"""Three nodes with gRPC doors: any of them answers, whoever leads."""

from __future__ import annotations

import time
from collections.abc import Iterator

import grpc
import pytest
from tests.conformance.grpc.door_cluster import Nodes, three_nodes
from tests.waiting import wait_until

from tidelog.gateways.grpc.generated import api_pb2 as api
from tidelog.gateways.grpc.generated import mq_pb2 as mq
from tidelog.gateways.grpc.generated import tidelog_pb2 as v1


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with three_nodes(tmp_path_factory.mktemp("nodes")) as started:
        yield started


@pytest.fixture(scope="module")
def two_doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Node 3 has none."""
    with three_nodes(tmp_path_factory.mktemp("two-doors"), without_door=frozenset({3})) as started:
        yield started


def test_any_node_answers(nodes: Nodes) -> None:
    nodes.create("any", 3, 3)
    for node_id, client in nodes.clients.items():
        for partition in range(3):
            sent = mq.ProduceRequest(topic="any", value=b"%d" % node_id, acks=-1, partition=partition)
            offset = client.mq.Produce(sent).offset
            assert offset == node_id - 1
            seek = mq.SeekRequest(topic="any", partition=partition, offset=-1)
            assert client.mq.Seek(seek).offset == node_id
    for client in nodes.clients.values():
        for partition in range(3):
            asked = v1.FetchRequest(topic="any", partition=partition, wait_ms=2000)
            wait_until(
                lambda client=client, asked=asked: len(client.log.Fetch(asked).records) == 3,  # type: ignore[misc]
                "a follower has the records",
            )
    for client in nodes.clients.values():
        requests = [mq.ProduceRequest(topic="any", value=b"v", acks=-1) for _ in range(50)]
        assert client.mq.ProduceStream(iter(requests)).offset >= 52


def test_a_replica_of_another_node_is_read_through_any(nodes: Nodes) -> None:
    """A topic with one replica: two of three nodes have nothing of it."""
    nodes.create("one", 1, 1)
    sent = v1.ProduceRequest(topic="one", partition=0, records=[v1.Record(value=b"v")] * 3)
    assert [client.log.Produce(sent).appended[0].base_offset for client in nodes.clients.values()] == [0, 3, 6]
    for client in nodes.clients.values():
        assert len(client.log.Fetch(v1.FetchRequest(topic="one")).records) == 9
    waiting = [
        client.log.Fetch.future(v1.FetchRequest(topic="one", offset=9, wait_ms=9000))
        for client in nodes.clients.values()
    ]
    time.sleep(5.5)
    nodes.clients[1].log.Produce(sent)
    assert [len(each.result(3).records) for each in waiting] == [3, 3, 3], "longer than one node waits for another"
    for client in nodes.clients.values():
        assert client.api.Consume(api.ConsumeRequest(topic="one", offset=8)).record.offset == 8


def test_a_group_is_the_same_through_any_node(nodes: Nodes) -> None:
    nodes.create("shared", 2, 3)
    joined = nodes.clients[1].mq.JoinGroup(mq.JoinGroupRequest(group_id="far", topics=["shared"]))
    sync = mq.SyncGroupRequest(group_id="far", member_id=joined.member_id, generation_id=joined.generation_id)
    sync.assignment[joined.member_id].partitions[:] = [0, 1]
    nodes.clients[1].mq.SyncGroup(sync)
    heartbeat = mq.HeartbeatRequest(group_id="far", member_id=joined.member_id, generation_id=joined.generation_id)
    commit = mq.CommitOffsetRequest(group_id="far", topic="shared", partition=0, offset=4)
    nodes.clients[1].mq.CommitOffset(commit)
    for node_id, client in nodes.clients.items():
        assert client.mq.Heartbeat(heartbeat).success
        fetch = api.FetchOffsetRequest(consumer_group_id="far", topic="shared")
        assert client.api.FetchOffset(fetch).offset == 4
        assert "far" in [each.group_id for each in client.log.ListGroups(v1.ListGroupsRequest()).groups]
        if node_id != 1:
            with pytest.raises(grpc.RpcError) as caught:
                client.mq.CommitOffset(commit)
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    leave = mq.LeaveGroupRequest(group_id="far", member_id=joined.member_id)
    assert nodes.clients[3].mq.LeaveGroup(leave).success


def test_a_transaction_through_every_node(nodes: Nodes) -> None:
    nodes.create("exact", 1, 3)
    made = nodes.clients[1].log.InitProducer(v1.InitProducerRequest(transactional_id="far"))
    state = v1.ProducerState(producer_id=made.producer_id, producer_epoch=made.producer_epoch, transactional_id="far")
    for sequence, client in enumerate(nodes.clients.values()):
        state.sequence = sequence
        client.log.Produce(
            v1.ProduceRequest(topic="exact", partition=0, records=[v1.Record(value=b"v")], producer=state)
        )
    end = v1.EndTransactionRequest(
        transactional_id="far", producer_id=made.producer_id, producer_epoch=made.producer_epoch, commit=True
    )
    nodes.clients[2].log.EndTransaction(end)
    for client in nodes.clients.values():
        wait_until(
            lambda client=client: len(client.log.Fetch(v1.FetchRequest(topic="exact", wait_ms=500)).records) == 3,  # type: ignore[misc]
            "the committed records",
        )


def test_a_client_of_the_kafka_service_is_sent_to_the_leader(two_doors: Nodes) -> None:
    """To leaders that have a door; to node 3, which has none, the record is sent on."""
    two_doors.create("led", 6, 1)
    seen = set()
    for partition in range(6):
        leader = two_doors.leader("led", 1, partition)
        for node_id, client in two_doors.clients.items():
            answer = client.api.Produce(api.ProduceRequest(topic="led", partition=partition, value=b"v", ack=api.ALL))
            if node_id == leader or leader == 3:
                assert (answer.error_code, answer.leader_addr) == (api.OK, "")
                assert answer.offset >= 0
            else:
                port = two_doors.processes[leader].grpc_port
                assert (answer.error_code, answer.leader_addr) == (api.NOT_LEADER, f"127.0.0.1:{port}")
                assert answer.offset == -1
            seen.add((node_id == leader, leader == 3))
    assert len(seen) == 3


def test_addresses_of_the_cluster(two_doors: Nodes) -> None:
    brokers = two_doors.clients[2].mq.DescribeCluster(mq.DescribeClusterRequest()).brokers
    ports = {node_id: process.grpc_port for node_id, process in two_doors.processes.items()}
    assert [(each.id, each.host, each.port) for each in brokers] == [
        (1, "127.0.0.1", ports[1]),
        (2, "127.0.0.1", ports[2]),
        (3, "", 0),
    ]
