"""Nodes die or hang under idempotent acks=all load: nothing is lost, nothing is written twice, writes go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial

import pytest
from tests.faults.cluster.load import Load, create_topic, is_whole, spread_leaders, wait_for, without
from tests.faults.cluster.promise import LATE_MAX, Promise

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster
from tidelog.metadata.image import NO_LEADER

ELECTED_SECONDS_MAX = 0.6
"""How soon others lead, on a machine that has time: without looking for the dead it is 0.75 s at least, and over a
second for a controller. Reached by one kill out of a few; the others must only keep the promise."""
KILLS = 3
KILLS_MAX = 6
"""How many a busy machine gets for that one."""
HANGS_LATE_MAX = 3


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


def recover(cluster: LocalCluster, load: Load, victim: int, number: int) -> None:
    others = without(cluster, victim)
    wait_for(others, lambda state: bool(state.quorum) and state.controller_id != victim, "a controller that is alive")
    if number == signal.SIGKILL:
        cluster.start_again(victim)
    else:
        wait_for(others, lambda state: not led_by(state, load.topic, victim), "other leaders")
        cluster.send_signal(victim, signal.SIGCONT)
    wait_for(others, is_whole, "a whole cluster again")


def check_every_kill(
    cluster: LocalCluster,
    load: Load,
    choose: Callable[[ClusterState], int],
    kills: int,
    late_max: int = LATE_MAX,
) -> None:
    """Whoever is chosen dies and comes back, and each time writes go on as soon as is promised."""
    promise, kept = Promise(late_max=late_max), 0
    elected_s: list[float] = []
    while kept < kills or min(elected_s) > ELECTED_SECONDS_MAX:
        assert len(elected_s) < KILLS_MAX, f"others led after {elected_s} s"
        state = spread_leaders(cluster.bootstrap, load.topic)
        victim = choose(state)
        partitions = led_by(state, load.topic, victim)
        assert partitions, f"node {victim} leads nothing"
        since_s = time.monotonic()
        cluster.send_signal(victim, signal.SIGKILL)
        wait_for(without(cluster, victim), partial(leads_nothing, topic=load.topic, node_id=victim), "other leaders")
        elected_s.append(time.monotonic() - since_s)
        kept += promise.is_kept(load.wait_for_writes(partitions, since_s))
        recover(cluster, load, victim, signal.SIGKILL)


def leads_nothing(state: ClusterState, topic: str, node_id: int) -> bool:
    """Every partition of the topic is led, and by others."""
    leaders = {place.leader for partition, place in state.partitions.items() if partition.topic == topic}
    return bool(leaders) and not leaders & {node_id, NO_LEADER}


def another_leader(load: Load) -> Callable[[ClusterState], int]:
    return lambda state: leader_that_is_not(state, load.topic, state.controller_id)


def test_a_killed_leader_loses_nothing_and_holds_writes_up_for_a_moment(cluster: LocalCluster) -> None:
    load, _ = begun(cluster)
    check_every_kill(cluster, load, another_leader(load), KILLS)
    load.stop()
    load.check(cluster.bootstrap)


def test_a_killed_leader_that_was_controller_too_is_no_worse(cluster: LocalCluster) -> None:
    load, _ = begun(cluster)
    check_every_kill(cluster, load, lambda state: state.controller_id, KILLS)
    load.stop()
    load.check(cluster.bootstrap)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_one_of_many_kills(cluster: LocalCluster) -> None:
    load, _ = begun(cluster)
    for _ in range(10):
        check_every_kill(cluster, load, another_leader(load), 2, late_max=0)
        check_every_kill(cluster, load, lambda state: state.controller_id, 2, late_max=0)
    load.stop()
    load.check(cluster.bootstrap)


def test_a_leader_that_hangs_longer_than_its_session_comes_back_as_a_follower(cluster: LocalCluster) -> None:
    """It closes nothing and its port takes connections: only its session tells, so the promise is not for each time."""
    load, _ = begun(cluster)
    promise, is_kept = Promise(late_max=HANGS_LATE_MAX), False
    while not is_kept:
        state = spread_leaders(cluster.bootstrap, load.topic)
        victim = another_leader(load)(state)
        is_kept = promise.is_kept(fail(cluster, load, state, victim, signal.SIGSTOP))
        recover(cluster, load, victim, signal.SIGSTOP)
    load.stop()
    load.check(cluster.bootstrap)


def test_a_controller_that_hangs_gives_way_and_is_a_follower_when_it_goes_on(cluster: LocalCluster) -> None:
    """When it goes on it still believes to lead; nobody is fenced and nothing decided by that."""
    load, _ = begun(cluster)
    state = spread_leaders(cluster.bootstrap, load.topic)
    victim = state.controller_id
    fail(cluster, load, state, victim, signal.SIGSTOP)
    recover(cluster, load, victim, signal.SIGSTOP)
    load.wait_for_writes([0, 1, 2], time.monotonic())
    wait_for(cluster.bootstrap, is_whole, "a whole cluster in the end")
    load.stop()
    load.check(cluster.bootstrap)
