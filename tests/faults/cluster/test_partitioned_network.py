"""The network between nodes is cut, in both directions or one: the majority goes on, nothing is lost or doubled.

Needs network namespaces (root, iproute2); skipped, with the reason, where this machine does not permit them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tests.faults.cluster.conftest import SETTINGS
from tests.faults.cluster.load import Load, create_topic, is_whole, spread_leaders, wait_for
from tests.faults.cluster.namespaces import Namespaces, NotPermitted
from tests.faults.cluster.networked import CLIENTS, NODES, PORT, NetworkedCluster
from tests.faults.cluster.test_failover import GOES_ON_SECONDS_MAX, leader_that_is_not, led_by

from tidelog.cli.cluster_state import ClusterState

IMPATIENT = {"socket.timeout.ms": "1000", "request.timeout.ms": "1000", "socket.connection.setup.timeout.ms": "1000"}
"""A client whose connection falls silent waits for its own timeout before it tries elsewhere."""

PATIENCE = {"replica.lag.time.max.ms": "4000"}
"""How long the last test has to wait; no other is about followers that are alive and do not fetch."""


@pytest.fixture(scope="module")
def networked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkedCluster]:
    try:
        network = Namespaces((*NODES, CLIENTS)).__enter__()
    except NotPermitted as reason:
        pytest.skip(str(reason))
    cluster = NetworkedCluster(network, tmp_path_factory.mktemp("networked"), {**SETTINGS, **PATIENCE})
    try:
        cluster.start()
        with network.inside(CLIENTS):
            yield cluster
    finally:
        cluster.stop()
        network.__exit__()


def begun(cluster: NetworkedCluster) -> tuple[Load, ClusterState]:
    topic = create_topic(cluster.bootstrap)
    state = spread_leaders(cluster.bootstrap, topic)
    load = Load(cluster.bootstrap, topic, IMPATIENT)
    load.start()
    load.wait_for_writes([0, 1, 2], 0.0)
    return load, state


def goes_on_without(load: Load, partitions: list[int], since_s: float, what: str) -> None:
    took_s = load.wait_for_writes(partitions, since_s)
    print(f"{what}: writes go on after {took_s:.2f} s")
    assert took_s < GOES_ON_SECONDS_MAX


def finish(cluster: NetworkedCluster, load: Load) -> None:
    cluster.network.heal()
    wait_for(cluster.bootstrap, is_whole, "a whole cluster once the network is")
    load.stop()
    load.check(cluster.bootstrap)


def write_alone(cluster: NetworkedCluster, node_id: int, topic: str, partition: int) -> None:
    """To a leader that does not know it is none any more, with acks=1: a record only its own log has."""
    with cluster.network.inside(node_id):
        address = f"{cluster.network.address(node_id)}:{PORT}"
        producer = Producer({"bootstrap.servers": address, "acks": 1, "log_level": 0})
        producer.produce(topic, b"-1", partition=partition)
        assert producer.flush(30) == 0
        del producer


def test_a_leader_that_is_cut_off_gives_way_and_drops_what_nobody_else_has(networked: NetworkedCluster) -> None:
    load, state = begun(networked)
    victim = leader_that_is_not(state, load.topic, state.controller_id)
    partitions = led_by(state, load.topic, victim)
    networked.network.isolate(victim)
    since_s = time.monotonic()
    goes_on_without(load, partitions, since_s, "leader cut off")
    write_alone(networked, victim, load.topic, partitions[0])
    # `check` counts the record nobody else had as out of order.
    finish(networked, load)


def test_a_controller_that_is_cut_off_is_replaced(networked: NetworkedCluster) -> None:
    load, state = begun(networked)
    victim = state.controller_id
    networked.network.isolate(victim)
    since_s = time.monotonic()
    goes_on_without(load, led_by(state, load.topic, victim), since_s, "controller cut off")
    wait_for(networked.bootstrap, lambda now: now.controller_id != victim and bool(now.quorum), "another controller")
    finish(networked, load)


@pytest.mark.parametrize("direction", ["out", pytest.param("in", marks=pytest.mark.long)])
def test_a_leader_that_can_only_hear_or_only_speak_gives_way(networked: NetworkedCluster, direction: str) -> None:
    load, state = begun(networked)
    victim = leader_that_is_not(state, load.topic, state.controller_id)
    others = [host for host in (*NODES, CLIENTS) if host != victim]
    if direction == "out":
        networked.network.cut([victim], others)
    else:
        networked.network.cut(others, [victim])
    since_s = time.monotonic()
    goes_on_without(load, led_by(state, load.topic, victim), since_s, f"leader cut off one way ({direction})")
    finish(networked, load)


@pytest.mark.long
def test_two_nodes_that_cannot_talk_to_one_another_need_the_third(networked: NetworkedCluster) -> None:
    """Everyone reaches the controller, but a leader and a follower do not hear each other: the follower leaves the
    in-sync set, nobody is fenced, and the writes go on with the two that are left."""
    load, state = begun(networked)
    one, other = (node_id for node_id in NODES if node_id != state.controller_id)
    networked.network.cut([one], [other])
    networked.network.cut([other], [one])
    wait_for(
        networked.bootstrap,
        lambda now: len(now.live_racks()) == len(NODES) and bool(now.under_replicated),
        "the one that does not hear leaves the in-sync sets",
    )
    load.wait_for_writes([0, 1, 2], time.monotonic())
    finish(networked, load)
