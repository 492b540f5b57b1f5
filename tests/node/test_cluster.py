"""Three real nodes in one process: any of them serves any client, and the cluster goes on without one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.servers.broker_process import free_port
from tests.waiting import wait_until

from tidelog.cli.wire import BrokerConnection
from tidelog.model.errors import ErrorCode
from tidelog.node.errors import NodeStartError
from tidelog.node.stages import Loaded
from tidelog.partitions.partition import Partition
from tidelog.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.testing.broker import Broker
from tidelog.testing.embedded_cluster import EmbeddedCluster

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(nodes=3) as running:
        yield running


def create_at(broker: Broker, name: str, replicas: int = 3) -> ErrorCode:
    """Asks this very node, whoever is controller."""
    topic = CreatableTopic(name=name, num_partitions=6, replication_factor=replicas)
    with BrokerConnection("127.0.0.1", broker.port) as connection:
        [result] = connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics
    return ErrorCode(result.error_code)


def create(bootstrap: str, name: str, partitions: int = 6, replicas: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, replicas)], operation_timeout=30)[name].result(DEADLINE_S)


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(DEADLINE_S) == 0
    assert failed == []


def consume(bootstrap: str, topic: str, count: int, group: str) -> list[bytes]:
    # By itself it would commit every five seconds, and then there may be nothing left to commit in the end.
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    found: list[bytes] = []

    def read() -> bool:
        found.extend(message.value() for message in consumer.consume(500, 0.2) if not message.error())
        return len(found) >= count

    try:
        wait_until(read, lambda: f"{count} records in {topic}, read {len(found)}")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def test_a_topic_created_through_any_node_is_the_same_everywhere(cluster: EmbeddedCluster) -> None:
    for number, broker in enumerate(cluster.brokers):
        assert create_at(broker, f"via-{number}") == ErrorCode.NONE
        # Whoever was told finds it where it was told.
        assert f"via-{number}" in broker.node.metadata.topics
    wait_until(lambda: len({b.node.metadata.offset for b in cluster.brokers}) == 1, "all nodes at the same offset")
    images = [broker.node.metadata for broker in cluster.brokers]
    for name in ("via-0", "via-1", "via-2"):
        states = [image.topics[name].partitions for image in images]
        assert states[0] == states[1] == states[2]
        assert {len(state.replicas) for state in states[0].values()} == {3}
        assert {state.leader for state in states[0].values()} == {1, 2, 3}
    assert len({image.controller_id for image in images}) == 1
    assert len({image.cluster_id for image in images}) == 1


def test_records_go_in_and_out_through_any_bootstrap(cluster: EmbeddedCluster) -> None:
    create(cluster.brokers[0].bootstrap_servers, "through")
    values = [b"%d" % number for number in range(600)]
    for number, broker in enumerate(cluster.brokers):
        produce(broker.bootstrap_servers, "through", values[number * 200 : (number + 1) * 200])
    for number, broker in enumerate(cluster.brokers):
        assert sorted(consume(broker.bootstrap_servers, "through", 600, f"group-{number}")) == sorted(values)


def test_an_admin_client_may_ask_any_node(cluster: EmbeddedCluster) -> None:
    outsider = next(broker for broker in cluster.brokers if not broker.node.is_controller)
    admin = AdminClient({"bootstrap.servers": outsider.bootstrap_servers, "log_level": 0})
    described = admin.describe_cluster().result(DEADLINE_S)
    assert {node.id for node in described.nodes} == {1, 2, 3}
    assert create_at(outsider, "too-many", replicas=4) == ErrorCode.INVALID_REPLICATION_FACTOR
    create(outsider.bootstrap_servers, "deleted")
    admin.delete_topics(["deleted"], operation_timeout=30)["deleted"].result(DEADLINE_S)
    wait_until(lambda: all("deleted" not in b.node.metadata.topics for b in cluster.brokers), "the topic gone")


def test_a_transaction_spans_leaders_and_coordinators_on_all_nodes(cluster: EmbeddedCluster) -> None:
    create(cluster.brokers[0].bootstrap_servers, "spanned")
    for number, commits in enumerate((True, False, True)):
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"spanning-{number}", "log_level": 0}
        )
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for partition in range(6):
            producer.produce("spanned", b"%d-%d" % (number, partition), partition=partition)
        producer.commit_transaction(DEADLINE_S) if commits else producer.abort_transaction(DEADLINE_S)
    expected = sorted(b"%d-%d" % (number, partition) for number in (0, 2) for partition in range(6))
    assert sorted(consume(cluster.bootstrap_servers, "spanned", 12, "spanning")) == expected


def replicas(cluster: EmbeddedCluster, topic: str) -> dict[int, Partition]:
    found = {}
    for broker in cluster.brokers:
        stage = broker.node.stage
        partition = stage.table.find_partition(topic, 0) if isinstance(stage, Loaded) else None
        assert partition is not None
        found[broker.node.config.node_id] = partition
    return found


def test_deleted_records_are_gone_from_every_replica_when_the_answer_comes(cluster: EmbeddedCluster) -> None:
    create(cluster.brokers[0].bootstrap_servers, "shortened", partitions=1)
    produce(cluster.brokers[0].bootstrap_servers, "shortened", [b"%d" % number for number in range(20)])
    everywhere = replicas(cluster, "shortened")
    leader = next(broker for broker in cluster.brokers if everywhere[broker.node.config.node_id].is_leader)
    wanted = DeleteRecordsTopic(name="shortened", partitions=[DeleteRecordsPartition(partition_index=0, offset=12)])
    with BrokerConnection("127.0.0.1", leader.port) as connection:
        [topic] = connection.call(DeleteRecordsRequest(topics=[wanted], timeout_ms=30_000), 2).topics
        # The answer is the proof: it is looked at before anything else is waited for.
        starts = {node_id: partition.log.log_start_offset for node_id, partition in everywhere.items()}
    assert (topic.partitions[0].error_code, topic.partitions[0].low_watermark) == (0, 12)
    assert set(starts.values()) == {12}


def test_another_node_joins_and_is_given_a_number(cluster: EmbeddedCluster) -> None:
    joining = {"controller.quorum.bootstrap.servers": cluster.brokers[1].bootstrap_servers}
    with Broker(joining) as broker:
        assert broker.node.config.node_id == 4
        # A node is ready when the others know it: whoever is asked next, a rebalance say, counts on it.
        assert all(b.node.metadata.is_live(4) for b in cluster.brokers)
        assert create_at(broker, "wider") == ErrorCode.NONE
        topics = broker.node.metadata.topics.keys()
        # Who was not asked hears of it a moment later.
        wait_until(lambda: cluster.brokers[0].node.metadata.topics.keys() == topics, "the same topics everywhere")
    wait_until(lambda: all(not b.node.metadata.is_live(4) for b in cluster.brokers), "the node that stopped fenced")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"node.id": 2}, "another node with id 2 is alive"),
        ({"cluster.id": "AAAAAAAAAAAAAAAAAAAAAA"}, "the request is for cluster AAAAAAAAAAAAAAAAAAAAAA"),
    ],
)
def test_who_is_not_taken_in(cluster: EmbeddedCluster, settings: dict[str, object], words: str) -> None:
    joining = {"controller.quorum.bootstrap.servers": cluster.brokers[0].bootstrap_servers}
    with pytest.raises(NodeStartError) as refused:
        Broker({**joining, **settings}).start()
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_node_cannot_join_itself(host: str) -> None:
    port = free_port()
    with pytest.raises(NodeStartError, match="cannot join itself"):
        Broker({"controller.quorum.bootstrap.servers": f"{host}:{port}"}, port=port).start()


def test_the_cluster_goes_on_when_its_controller_stops() -> None:
    with EmbeddedCluster(nodes=3) as cluster:
        wait_until(lambda: _voters(cluster) == 3, "three voters")
        create(cluster.bootstrap_servers, "before")
        former = cluster.controller
        left = [broker for broker in cluster.brokers if broker is not former]
        former.stop()
        wait_until(lambda: any(broker.node.is_controller for broker in left), "another controller")
        create(left[0].bootstrap_servers, "after", replicas=2)
        produce(left[1].bootstrap_servers, "before", [b"x"] * 50)
        former.start()
        wait_until(lambda: all(b.node.metadata.is_live(former.node.config.node_id) for b in left), "the node back")
        assert "after" in former.node.metadata.topics
        wait_until(
            lambda: all(len(state.isr) == 3 for state in left[0].node.metadata.topics["before"].partitions.values()),
            "all replicas in sync again",
        )


def _voters(cluster: EmbeddedCluster) -> int:
    stage = cluster.controller.node.stage
    assert isinstance(stage, Loaded)
    return len(stage.cluster.quorum.members.voters)
