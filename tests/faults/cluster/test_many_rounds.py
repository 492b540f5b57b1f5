"""Five processes, many rounds: nodes are killed, stopped and brought back in no good order, two at a time at most."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest
from tests.faults.cluster.conftest import SETTINGS
from tests.faults.cluster.load import Load, cluster_state, create_topic, wait_for

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster

NODES = 5
ROUNDS = 12


def is_whole(state: ClusterState) -> bool:
    return len(state.live_racks()) == NODES and not state.under_replicated and not state.leaderless


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_over_many_rounds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    arguments = ["--log-level", "error", "-o", "tidelog.quorum.voters.max=5"]
    for name, value in SETTINGS.items():
        arguments += ["-o", f"{name}={value}"]
    cluster = LocalCluster(nodes=NODES, data=tmp_path, host="127.0.0.1", port=0, arguments=arguments, voters_max=NODES)
    cluster.start()
    try:
        topic = create_topic(cluster.bootstrap)
        wait_for(cluster.bootstrap, is_whole, "a whole cluster")
        load = Load(cluster.bootstrap, topic)
        load.start()
        for _ in range(ROUNDS):
            down = chance.sample(range(1, NODES + 1), chance.choice((1, 1, 2)))
            hangs = {node_id: chance.random() < 0.4 for node_id in down}
            for node_id in down:
                cluster.send_signal(node_id, signal.SIGSTOP if hangs[node_id] else signal.SIGKILL)
            time.sleep(chance.uniform(0.1, 4.0))
            for node_id in down:
                if hangs[node_id]:
                    cluster.send_signal(node_id, signal.SIGCONT)
                else:
                    cluster.start_again(node_id)
            load.wait_for_writes([0, 1, 2], time.monotonic())
            if chance.random() < 0.5:
                wait_for(
                    cluster.bootstrap, is_whole, f"a whole cluster, seed {seed}: {cluster_state(cluster.bootstrap)}"
                )
        wait_for(cluster.bootstrap, is_whole, "a whole cluster in the end")
        load.stop()
        load.check(cluster.bootstrap)
    finally:
        cluster.stop()
