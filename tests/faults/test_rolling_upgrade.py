"""A cluster goes from the version before to this one, node by node, while clients write: nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.faults.cluster.load import PARTITIONS, Load, create_topic, is_whole, spread_leaders, wait_for
from tests.servers.mixed_cluster import MixedCluster, unpack_source_before
from tests.waiting import wait_until

from tidelog.version import __version__

NODES = (1, 2, 3)
SETTINGS = (
    *("-o", "default.replication.factor=3", "-o", "min.insync.replicas=2"),
    *("-o", "offsets.topic.num.partitions=3", "-o", "transaction.state.log.num.partitions=3"),
)


@pytest.fixture(scope="module")
def source_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_source_before(tmp_path_factory.mktemp("before"))


@pytest.fixture
def cluster(tmp_path: Path, source_before: Path) -> Iterator[MixedCluster]:
    """Three nodes of the version before."""
    with MixedCluster(tmp_path, source_before, SETTINGS) as running:
        for node_id in NODES:
            assert running.start(node_id, before=True).startswith("tidelog 0.1.0 ")
        wait_for(running.bootstrap, is_whole, "a whole cluster")
        yield running


def upgrade(cluster: MixedCluster, node_id: int) -> None:
    cluster.stop(node_id)
    assert cluster.start(node_id, before=False).startswith(f"tidelog {__version__} ")
    wait_for(cluster.bootstrap, is_whole, "a whole cluster again")


def commit_transaction(bootstrap: str, topic: str, values: list[str]) -> None:
    """One record in each partition: the coordinator writes markers on the leaders of all of them."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": f"upgrade-{topic}", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=partition)
    producer.commit_transaction(60)


def wait_until_committed(bootstrap: str, topic: str, values: set[str]) -> None:
    """A commit is acknowledged before its markers are written: the records can be read a moment later."""
    settings = {"group.id": "check", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed", **settings})
    found: set[str] = set()

    def read() -> bool:
        found.update((m.value() or b"").decode() for m in consumer.consume(100, 0.2) if not m.error())
        return found >= values

    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        wait_until(read, lambda: f"{values - found}")
    finally:
        consumer.close()
    assert found == values


def test_a_rolling_upgrade_loses_nothing(cluster: MixedCluster) -> None:
    topic = create_topic(cluster.bootstrap)
    load = Load(cluster.bootstrap, topic)
    load.start()
    transactions = create_topic(cluster.bootstrap)
    written: list[str] = []
    for node_id in NODES:
        load.wait_for_writes(list(range(PARTITIONS)), time.monotonic())
        upgrade(cluster, node_id)
        spread_leaders(cluster.bootstrap, transactions)
        values = [f"{node_id}-{partition}" for partition in range(PARTITIONS)]
        commit_transaction(cluster.bootstrap, transactions, values)
        written += values
    load.wait_for_writes(list(range(PARTITIONS)), time.monotonic())
    load.stop()
    load.check(cluster.bootstrap)
    wait_until_committed(cluster.bootstrap, transactions, set(written))


def test_a_node_of_the_version_before_leads_nodes_of_this_one(cluster: MixedCluster) -> None:
    """The controller is upgraded last: new nodes register with it, forward to it and follow its partitions."""
    old = wait_for(cluster.bootstrap, is_whole, "a whole cluster").quorum["leader"]
    for node_id in NODES:
        if node_id != old:
            upgrade(cluster, node_id)
    new = [address for node_id, address in zip(NODES, cluster.addresses, strict=True) if node_id != old]
    topic = create_topic(",".join(new))
    spread_leaders(cluster.bootstrap, topic)
    load = Load(cluster.bootstrap, topic)
    load.start()
    load.wait_for_writes(list(range(PARTITIONS)), time.monotonic())
    transactions = create_topic(",".join(new))
    spread_leaders(cluster.bootstrap, transactions)
    commit_transaction(",".join(new), transactions, ["1", "2", "3"])
    wait_until_committed(cluster.bootstrap, transactions, {"1", "2", "3"})
    state = wait_for(cluster.bootstrap, is_whole, "a whole cluster")
    assert state.quorum["leader"] == old
    cluster.stop(old)
    # Started once more as it was: it needs the quorum, which is new by now, before it answers anything else.
    cluster.start(old, before=True)
    wait_for(cluster.bootstrap, is_whole, "a whole cluster with the old node")
    upgrade(cluster, old)
    load.wait_for_writes(list(range(PARTITIONS)), time.monotonic())
    load.stop()
    load.check(cluster.bootstrap)
