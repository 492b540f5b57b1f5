"""The network between nodes is cut, in both directions or one: the majority goes on, nothing is lost or doubled.

Needs network namespaces (root, iproute2); skipped, with the reason, where this machine does not permit them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from tests.faults.cluster.conftest import SETTINGS
from tests.faults.cluster.load import Load, create_topic, is_whole, spread_leaders, wait_for
from tests.faults.cluster.namespaces import Namespaces, NotPermitted
from tests.faults.cluster.networked import CLIENTS, NODES, PORT, NetworkedCluster
from tests.faults.cluster.promise import Promise
from tests.faults.cluster.test_failover import leader_that_is_not, led_by

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


def begun(cluster: NetworkedCluster) -> Load:
    # What a test that failed left cut is not to fail the next one.
    heal(cluster)
    load = Load(cluster.bootstrap, create_topic(cluster.bootstrap), IMPATIENT)
    load.start()
    load.wait_for_writes([0, 1, 2], 0.0)
    return load


def goes_on_without(
    cluster: NetworkedCluster, load: Load, choose: Callable[[ClusterState], int], cut_off: Callable[[int], None]
) -> tuple[int, int]:
    """Somebody is cut off, and writes go on as soon as is promised; who it was, and a partition of his."""
    promise = Promise()
    while True:
        state = spread_leaders(cluster.bootstrap, load.topic)
        victim = choose(state)
        partitions = led_by(state, load.topic, victim)
        cut_off(victim)
        took_s = load.wait_for_writes(partitions, time.monotonic())
        print(f"node {victim} is cut off: writes go on after {took_s:.2f} s")
        if promise.is_kept(took_s):
            return victim, partitions[0]
        heal(cluster)


def a_leader_of(load: Load) -> Callable[[ClusterState], int]:
    """Who is not the controller."""
    return lambda state: leader_that_is_not(state, load.topic, state.controller_id)


def heal(cluster: NetworkedCluster) -> None:
    cluster.network.heal()
    healed_s = time.monotonic()
    wait_for(cluster.bootstrap, is_whole, "a whole cluster once the network is")
    print(f"whole again {time.monotonic() - healed_s:.2f} s after the network")


def finish(cluster: NetworkedCluster, load: Load) -> None:
    heal(cluster)
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
    load = begun(networked)
    victim, partition = goes_on_without(networked, load, a_leader_of(load), networked.network.isolate)
    write_alone(networked, victim, load.topic, partition)
    # `check` counts the record nobody else had as out of order.
    finish(networked, load)


def test_a_controller_that_is_cut_off_is_replaced(networked: NetworkedCluster) -> None:
    load = begun(networked)
    victim, _ = goes_on_without(networked, load, lambda state: state.controller_id, networked.network.isolate)
    wait_for(networked.bootstrap, lambda now: now.controller_id != victim and bool(now.quorum), "another controller")
    finish(networked, load)


@pytest.mark.parametrize("direction", ["out", pytest.param("in", marks=pytest.mark.long)])
def test_a_leader_that_can_only_hear_or_only_speak_gives_way(networked: NetworkedCluster, direction: str) -> None:
    def cut_off(victim: int) -> None:
        others = [host for host in (*NODES, CLIENTS) if host != victim]
        if direction == "out":
            networked.network.cut([victim], others)
        else:
            networked.network.cut(others, [victim])

    load = begun(networked)
    goes_on_without(networked, load, a_leader_of(load), cut_off)
    finish(networked, load)


@pytest.mark.long
def test_two_nodes_that_cannot_talk_to_one_another_need_the_third(networked: NetworkedCluster) -> None:
    """Everyone reaches the controller, but a leader and a follower do not hear each other: the follower leaves the
    in-sync set, nobody is fenced, and the writes go on with the two that are left."""
    load = begun(networked)
    state = spread_leaders(networked.bootstrap, load.topic)
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
