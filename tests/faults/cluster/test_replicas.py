"""Replicas lose their logs and nodes die again and again under idempotent acks=all load: nothing is lost or doubled."""

from __future__ import annotations

import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from tests.faults.cluster.load import DEADLINE_S, PARTITIONS, Load, create_topic, is_whole, wait_for
from tests.waiting import wait_until

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster


def begun(cluster: LocalCluster, **configs: str) -> tuple[Load, ClusterState]:
    topic = create_topic(cluster.bootstrap, **configs)
    state = wait_for(cluster.bootstrap, is_whole, "a whole cluster")
    load = Load(cluster.bootstrap, topic)
    load.start()
    load.wait_for_writes(list(range(PARTITIONS)), 0.0)
    return load, state


def finish(cluster: LocalCluster, load: Load) -> None:
    wait_for(cluster.bootstrap, is_whole, "a whole cluster in the end")
    load.stop()
    load.check(cluster.bootstrap)


def log_bytes(directory: Path, topic: str, partition: int) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((directory / f"{topic}-{partition}").glob("*.log")))


def test_a_replica_that_lost_its_logs_copies_them_again(cluster: LocalCluster, cluster_data: Path) -> None:
    load, state = begun(cluster)
    victim = next(node_id for node_id in (1, 2, 3) if node_id != state.controller_id)
    cluster.send_signal(victim, signal.SIGKILL)
    load.wait_for_writes(list(range(PARTITIONS)), time.monotonic())
    for partition in range(PARTITIONS):
        shutil.rmtree(cluster_data / f"node-{victim}" / f"{load.topic}-{partition}")
    cluster.start_again(victim)
    finish(cluster, load)

    def are_same() -> bool:
        return all(
            len({log_bytes(cluster_data / f"node-{node_id}", load.topic, partition) for node_id in (1, 2, 3)}) == 1
            for partition in range(PARTITIONS)
        )

    # One that was slow in the end may have been out of sync, and is still fetching.
    wait_until(are_same, "every replica has the same bytes", DEADLINE_S)


def test_a_killed_node_of_a_topic_that_syncs_follows_again_though_nothing_is_written(cluster: LocalCluster) -> None:
    """What it had not been known to have synced is synced before it says that it has it."""
    load, state = begun(cluster, tidelog_flush="ack")
    load.stop()
    victim = next(node_id for node_id in (1, 2, 3) if node_id != state.controller_id)
    cluster.send_signal(victim, signal.SIGKILL)
    cluster.start_again(victim)
    wait_for(cluster.bootstrap, is_whole, "a whole cluster in the end")
    load.check(cluster.bootstrap)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_kills_and_pauses(cluster: LocalCluster) -> None:
    load, _ = begun(cluster)
    chance = random.Random(7)
    for _ in range(15):
        victim = chance.choice((1, 2, 3))
        if chance.random() < 0.7:
            cluster.send_signal(victim, signal.SIGKILL)
            time.sleep(chance.uniform(0.0, 4.0))
            cluster.start_again(victim)
        else:
            cluster.send_signal(victim, signal.SIGSTOP)
            time.sleep(chance.uniform(0.5, 12.0))
            cluster.send_signal(victim, signal.SIGCONT)
        load.wait_for_writes(list(range(PARTITIONS)), time.monotonic())
    finish(cluster, load)
