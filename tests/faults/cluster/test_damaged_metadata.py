"""A node comes back with damaged metadata: a torn tail is cut, a snapshot with a wrong checksum is done without, each
said in one line, and the node knows all that the others know."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.cluster.load import DEADLINE_S, create_topic, is_whole, wait_for
from tests.servers.local_cluster import run_local_cluster
from tests.waiting import wait_until

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.local_cluster import LocalCluster

TOPICS = 12
TORN_BYTES = 90


@pytest.fixture
def snapshotting(tmp_path: Path) -> Iterator[LocalCluster]:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    with run_local_cluster(tmp_path, settings) as cluster:
        yield cluster


def metadata_of(data: Path, node_id: int) -> Path:
    return data / f"node-{node_id}" / "__cluster_metadata-0"


def tear(log: Path) -> None:
    """A batch whose end never reached the disk. The newest segment may have just begun, and have none of its own."""
    donor = max(log.parent.glob("*.checkpoint"), key=lambda path: path.stat().st_size)
    with log.open("ab") as file:
        file.write(donor.read_bytes()[:TORN_BYTES])


def flip(snapshot: Path) -> None:
    content = bytearray(snapshot.read_bytes())
    content[len(content) // 2] ^= 0x10
    snapshot.write_bytes(content)


def at(cluster: LocalCluster, node_id: int) -> str:
    return dict(zip(cluster.pids, cluster.bootstrap.split(","), strict=True))[node_id]


def topics(state: ClusterState) -> set[str]:
    return {partition.topic for partition in state.partitions}


def test_torn_tail_and_bad_snapshot(
    snapshotting: LocalCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = snapshotting
    names = {create_topic(cluster.bootstrap) for _ in range(TOPICS)}
    state = wait_for(cluster.bootstrap, is_whole, "a whole cluster")
    victim = next(node_id for node_id in cluster.pids if node_id != state.controller_id)
    directory = metadata_of(tmp_path, victim)
    wait_for(at(cluster, victim), lambda state: names <= topics(state), "the victim knows all topics")
    # They are written beside the work of the node: the newest is known when it does not work any more.
    wait_until(lambda: len(list(directory.glob("*.checkpoint"))) >= 2, "enough was written for snapshots", DEADLINE_S)
    cluster.send_signal(victim, signal.SIGKILL)
    flip(max(directory.glob("*.checkpoint")))
    tear(max(directory.glob("*.log")))
    names.add(create_topic_on_two(cluster, victim))
    capfd.readouterr()
    cluster.start_again(victim)
    state = wait_for(at(cluster, victim), lambda state: names <= topics(state), "it knows what the others know")
    wait_for(cluster.bootstrap, is_whole, "a whole cluster again")
    lines = capfd.readouterr().err.splitlines()
    assert len([line for line in lines if "snapshot" in line]) == 1, lines
    assert len([line for line in lines if "cut" in line]) == 1, lines


def create_topic_on_two(cluster: LocalCluster, victim: int) -> str:
    """While the victim is away: it has to hear of this one later."""
    others = [node_id for node_id in cluster.pids if node_id != victim]
    admin = AdminClient({"bootstrap.servers": at(cluster, others[0]), "log_level": 0})
    new = NewTopic("while-away", 1, replica_assignment=[others])
    admin.create_topics([new], operation_timeout=30)["while-away"].result(60)
    return "while-away"
