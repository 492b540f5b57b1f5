"""Nodes die or hang under idempotent acks=all load: nothing is lost, nothing is written twice, writes go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from tests.faults.cluster.load import Load, create_topic, is_whole, spread_leaders, wait_for, without

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster

GOES_ON_SECONDS_MAX = 3.0
"""With the settings as they are by default."""
ATTEMPTS_MAX = 4
"""A machine with other things to do may be late now and then, but not every time."""


def led_by(state: ClusterState, topic: str, node_id: int) -> list[int]:
    return [
        partition.partition
        for partition, place in state.partitions.items()
        if partition.topic == topic and place.leader == node_id
    ]


def begun(cluster: LocalCluster) -> tuple[Load, ClusterState]:
    topic = create_topic(cluster.bootstrap)
    state = spread_leaders(cluster.bootstrap, topic)
    load = Load(cluster.bootstrap, topic)
    load.start()
    load.wait_for_writes([0, 1, 2], 0.0)
    return load, state


def fail(cluster: LocalCluster, load: Load, state: ClusterState, node_id: int, number: int) -> float:
    partitions = led_by(state, load.topic, node_id)
    assert partitions, f"node {node_id} leads nothing"
    since_s = time.monotonic()
    cluster.send_signal(node_id, number)
    return load.wait_for_writes(partitions, since_s)


def leader_that_is_not(state: ClusterState, topic: str, node_id: int) -> int:
    return next(
        place.leader
        for partition, place in state.partitions.items()
        if partition.topic == topic and place.leader != node_id
    )


def check_goes_on(
    cluster: LocalCluster, load: Load, choose: Callable[[ClusterState], int], number: int = signal.SIGKILL
) -> None:
    """Whoever is chosen fails and comes back, until writes went on as soon as is promised."""
    took_s: list[float] = []
    while not took_s or min(took_s) > GOES_ON_SECONDS_MAX:
        assert len(took_s) < ATTEMPTS_MAX, f"writes went on after {took_s} s"
        state = spread_leaders(cluster.bootstrap, load.topic)
        victim = choose(state)
        took_s.append(fail(cluster, load, state, victim, number))
        others = without(cluster, victim)
        wait_for(others, lambda s, v=victim: bool(s.quorum) and s.controller_id != v, "a controller that is alive")
        if number == signal.SIGKILL:
            cluster.start_again(victim)
        else:
            wait_for(others, lambda s, v=victim: not led_by(s, load.topic, v), "other leaders")
            cluster.send_signal(victim, signal.SIGCONT)
        wait_for(others, is_whole, "a whole cluster again")


def test_a_killed_leader_and_a_killed_controller_lose_nothing(cluster: LocalCluster) -> None:
    load, _ = begun(cluster)
    check_goes_on(cluster, load, lambda state: leader_that_is_not(state, load.topic, state.controller_id))
    check_goes_on(cluster, load, lambda state: state.controller_id)
    load.stop()
    load.check(cluster.bootstrap)


def test_a_leader_that_hangs_longer_than_its_session_comes_back_as_a_follower(cluster: LocalCluster) -> None:
    load, _ = begun(cluster)
    check_goes_on(
        cluster, load, lambda state: leader_that_is_not(state, load.topic, state.controller_id), signal.SIGSTOP
    )
    load.stop()
    load.check(cluster.bootstrap)
