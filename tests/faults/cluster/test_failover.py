"""Nodes die or hang under idempotent acks=all load: nothing is lost, nothing is written twice, writes go on."""

from __future__ import annotations

import signal
import time

from tests.faults.cluster.load import Load, create_topic, is_whole, spread_leaders, wait_for

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster
from tidelog.model.ids import TopicPartition

GOES_ON_SECONDS_MAX = 30.0
"""Far above the three seconds that hold on a machine with nothing else to do; the figure itself is printed."""


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


def test_a_killed_leader_and_a_killed_controller_lose_nothing(cluster: LocalCluster) -> None:
    load, state = begun(cluster)

    victim = leader_that_is_not(state, load.topic, state.controller_id)
    took_s = fail(cluster, load, state, victim, signal.SIGKILL)
    print(f"leader killed: writes go on after {took_s:.2f} s")
    assert took_s < GOES_ON_SECONDS_MAX

    cluster.start_again(victim)
    state = wait_for(cluster.bootstrap, is_whole, "a whole cluster again")
    controller = state.controller_id
    partitions = led_by(state, load.topic, controller)
    since_s = time.monotonic()
    cluster.send_signal(controller, signal.SIGKILL)
    took_s = load.wait_for_writes(partitions or [0, 1, 2], since_s)
    print(f"controller killed: writes go on after {took_s:.2f} s")
    assert took_s < GOES_ON_SECONDS_MAX
    state = wait_for(cluster.bootstrap, lambda s: bool(s.quorum) and s.controller_id != controller, "a controller")

    cluster.start_again(controller)
    wait_for(cluster.bootstrap, is_whole, "a whole cluster in the end")
    load.stop()
    load.check(cluster.bootstrap)


def test_a_leader_that_hangs_longer_than_its_session_comes_back_as_a_follower(cluster: LocalCluster) -> None:
    load, state = begun(cluster)
    victim = leader_that_is_not(state, load.topic, state.controller_id)
    before = {TopicPartition(load.topic, partition) for partition in led_by(state, load.topic, victim)}
    took_s = fail(cluster, load, state, victim, signal.SIGSTOP)
    print(f"leader stopped: writes go on after {took_s:.2f} s")
    assert took_s < GOES_ON_SECONDS_MAX
    time.sleep(1)
    cluster.send_signal(victim, signal.SIGCONT)
    state = wait_for(cluster.bootstrap, is_whole, "a whole cluster again")
    assert all(victim in state.partitions[partition].isr for partition in before)
    load.stop()
    load.check(cluster.bootstrap)
