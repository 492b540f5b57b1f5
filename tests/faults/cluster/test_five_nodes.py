"""Five processes: nodes are killed, stopped and brought back, two at a time at most; the long test in many rounds."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.cluster.conftest import SETTINGS
from tests.faults.cluster.load import Load, cluster_state, create_topic, wait_for
from tests.servers.local_cluster import run_local_cluster

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster

NODES = 5
ROUNDS = 12


def is_whole(state: ClusterState) -> bool:
    return len(state.live_racks()) == NODES and not state.under_replicated and not state.leaderless


@pytest.fixture
def five(tmp_path: Path) -> Iterator[LocalCluster]:
    settings = SETTINGS | {"tidelog.quorum.voters.max": str(NODES)}
    with run_local_cluster(tmp_path, settings, nodes=NODES, voters_max=NODES, log_level="error") as cluster:
        yield cluster


def test_two_of_five_die_at_once(five: LocalCluster) -> None:
    """The controller and one that leads: three of five voters are left, and one replica of some partitions."""
    topic = create_topic(five.bootstrap)
    load = Load(five.bootstrap, topic)
    load.start()
    load.wait_for_writes([0, 1, 2], 0.0)
    state = wait_for(five.bootstrap, is_whole, "a whole cluster")
    leaders = {place.leader for partition, place in state.partitions.items() if partition.topic == topic}
    down = [state.controller_id, max(leaders - {state.controller_id})]
    for node_id in down:
        five.send_signal(node_id, signal.SIGKILL)
    wait_for(five.bootstrap, lambda now: now.controller_id not in down and bool(now.quorum), "another controller")
    five.start_again(*down)
    load.wait_for_writes([0, 1, 2], time.monotonic())
    wait_for(five.bootstrap, is_whole, "a whole cluster in the end")
    load.stop()
    load.check(five.bootstrap)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_over_many_rounds(five: LocalCluster, seed: int) -> None:
    chance = random.Random(seed)
    topic = create_topic(five.bootstrap)
    wait_for(five.bootstrap, is_whole, "a whole cluster")
    load = Load(five.bootstrap, topic)
    load.start()
    for _ in range(ROUNDS):
        down = chance.sample(range(1, NODES + 1), chance.choice((1, 1, 2)))
        hangs = {node_id: chance.random() < 0.4 for node_id in down}
        for node_id in down:
            five.send_signal(node_id, signal.SIGSTOP if hangs[node_id] else signal.SIGKILL)
        time.sleep(chance.uniform(0.1, 4.0))
        for node_id in down:
            if hangs[node_id]:
                five.send_signal(node_id, signal.SIGCONT)
            else:
                five.start_again(node_id)
        load.wait_for_writes([0, 1, 2], time.monotonic())
        if chance.random() < 0.5:
            wait_for(five.bootstrap, is_whole, f"a whole cluster, seed {seed}: {cluster_state(five.bootstrap)}")
    wait_for(five.bootstrap, is_whole, "a whole cluster in the end")
    load.stop()
    load.check(five.bootstrap)
