"""Nodes that do not belong: each start ends with one line that says why."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import wait_until

from tidelog.cli.wire import BrokerConnection
from tidelog.node.errors import NodeStartError
from tidelog.protocol.generated.unregister_broker import UnregisterBrokerRequest
from tidelog.testing.broker import Broker
from tidelog.testing.embedded_cluster import EmbeddedCluster

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(nodes=3, config={"broker.session.timeout.ms": 1500}) as running:
        yield running


def refusal(broker: Broker) -> str:
    with pytest.raises(NodeStartError) as refused:
        broker.start()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_member_that_was_removed_does_not_come_back(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    joining = {"controller.quorum.bootstrap.servers": cluster.brokers[0].bootstrap_servers}
    member = Broker({**joining, "node.id": 7}, data=tmp_path).start()
    port = member.port
    member.stop()
    with BrokerConnection("127.0.0.1", cluster.brokers[1].port) as connection:
        assert connection.call(UnregisterBrokerRequest(broker_id=7), 0).error_code == 0
    # By its own log it is a member, whoever it asks or does not ask.
    for settings in ({"node.id": 7}, {**joining, "node.id": 7}):
        words = refusal(Broker(settings, data=tmp_path, port=port))
        assert "node 7 was removed from the cluster; to join again it needs an empty data directory" in words
    other = tmp_path.with_name("other")
    with Broker({**joining, "node.id": 7}, data=other) as again:
        wait_until(lambda: cluster.controller.node.metadata.is_live(7), "another node with that number")
        assert again.node.config.node_id == 7
    # Nobody of that number is alive now; the place is not free for all that.
    wait_until(lambda: not cluster.controller.node.metadata.is_live(7), "the other node has stopped")
    for settings in ({"node.id": 7}, {**joining, "node.id": 7}):
        words = refusal(Broker(settings, data=tmp_path, port=port))
        assert "node 7 was removed from the cluster, and another node has its number" in words
    with Broker({**joining, "node.id": 7}, data=other):
        wait_until(lambda: cluster.controller.node.metadata.is_live(7), "the node that has the number now")
    shutil.rmtree(other)


def test_data_of_another_cluster_is_not_taken_in(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    with Broker({"node.id": 8}, data=tmp_path) as other:
        other.create_topic("kept")
    joining = {"controller.quorum.bootstrap.servers": cluster.brokers[0].bootstrap_servers}
    words = refusal(Broker({**joining, "node.id": 8}, data=tmp_path))
    assert "the request is for cluster" in words
    with Broker({"node.id": 8}, data=tmp_path) as other:
        assert "kept" in other.node.metadata.topics


def test_a_data_directory_belongs_to_one_number(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    joining = {"controller.quorum.bootstrap.servers": cluster.brokers[0].bootstrap_servers}
    with Broker(joining, data=tmp_path) as member:
        number = member.node.config.node_id
        assert number > 3
    with Broker(joining, data=tmp_path) as member:
        assert member.node.config.node_id == number


def test_nobody_to_join_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.node.joining.JOIN_SECONDS_MAX", 0.5)
    words = refusal(Broker({"controller.quorum.bootstrap.servers": "127.0.0.1:9"}, data=tmp_path))
    assert "no member of the cluster could be asked to join" in words
    assert "127.0.0.1:9" in words


def test_a_node_does_not_drain_itself() -> None:
    """The controller would not know of it."""
    with pytest.raises(NodeStartError, match="set at run time"):
        Broker({"cordoned.log.dirs": "*"}).start()
