"""Nodes that came in with --join all die at once and are started as they were: whoever comes back is the cluster.

The commands still say --join, and the one node that all of them name may be the last to return. A node that waited to
be taken in again would wait for a quorum that waits for its vote.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.cluster.conftest import SETTINGS
from tests.faults.cluster.group_offsets import commit_offsets, committed_offsets
from tests.faults.cluster.load import DEADLINE_S, PARTITIONS, Load, create_topic, is_whole, wait_for, without
from tests.servers.local_cluster import run_local_cluster

from tidelog.cli.cluster_state import ClusterState
from tidelog.cli.errors import CommandError
from tidelog.cli.local_cluster import LocalCluster

FOUNDER, SECOND, THIRD = NODES = (1, 2, 3)
QUICK = {"group.initial.rebalance.delay.ms": "0", "controller.quorum.election.timeout.ms": "300"}
ALONE_SECONDS = 1.5
"""Longer than a node that was a member asks to be taken in."""


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[LocalCluster]:
    """One node founds the cluster, the others join it."""
    with run_local_cluster(tmp_path, SETTINGS | QUICK, voters_max=1) as cluster:
        yield cluster


def all_vote(state: ClusterState) -> bool:
    return is_whole(state) and len(state.quorum["voters"]) == len(NODES)


class Witness:
    """A load that goes on through all deaths, and a group that has committed some of it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        # Clients wait ever longer for nodes that are all gone; what is looked at here are the nodes.
        patience = {"reconnect.backoff.max.ms": "200"}
        self._load = Load(cluster.bootstrap, create_topic(cluster.bootstrap), patience)
        self._load.start()
        self._load.wait_for_writes(list(range(PARTITIONS)), 0.0)
        self._committed = commit_offsets(cluster.bootstrap, self._load.topic)

    def kill_all(self) -> None:
        for node_id in NODES:
            self._cluster.send_signal(node_id, signal.SIGKILL)

    def check_service(self) -> None:
        """Every partition is written to, and the group has what it committed."""
        self._load.wait_for_writes(list(range(PARTITIONS)), time.monotonic())
        assert committed_offsets(self._cluster.bootstrap, self._load.topic) == self._committed

    @staticmethod
    def check_majority(bootstrap: str, name: str) -> None:
        """A majority is a cluster: it takes topics and their records. A partition whose replicas have all died may have
        to wait for one of those that are missing, as the last that was in sync."""
        wait_for(
            bootstrap, lambda state: bool(state.quorum) and len(state.live_racks()) == 2, "the missing one is missed"
        )
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        created = admin.create_topics([NewTopic(name, 1, 2)], operation_timeout=30, request_timeout=DEADLINE_S)
        created[name].result(DEADLINE_S)
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        producer.produce(name, b"taken")
        assert producer.flush(DEADLINE_S) == 0

    def check_all(self) -> None:
        wait_for(self._cluster.bootstrap, all_vote, "a whole cluster in which all vote")
        self._load.stop()
        self._load.check(self._cluster.bootstrap)


def test_a_joined_cluster_that_was_killed_whole_comes_back_in_any_order(joined: LocalCluster) -> None:
    wait_for(joined.bootstrap, all_vote, "a whole cluster in which all vote")
    witness = Witness(joined)

    witness.kill_all()
    joined.start_again(*NODES)
    witness.check_service()
    wait_for(joined.bootstrap, all_vote, "all three after all three")

    # The founder comes last: the others are a majority, and work without the only node they were told of.
    witness.kill_all()
    joined.start_again(SECOND, THIRD)
    witness.check_majority(without(joined, FOUNDER), "without-the-founder")
    joined.start_again(FOUNDER)
    witness.check_service()
    wait_for(joined.bootstrap, all_vote, "the founder after the others")

    # The founder comes first, and is no majority alone: it waits, and founds no other cluster.
    witness.kill_all()
    founder = joined.nodes[0]
    founder.start()
    with pytest.raises(CommandError, match="not ready in time"):
        founder.read_ready_line(time.monotonic() + ALONE_SECONDS)
    joined.start_again(SECOND)
    founder.read_ready_line(time.monotonic() + DEADLINE_S)
    witness.check_majority(without(joined, THIRD), "without-the-third")
    joined.start_again(THIRD)
    witness.check_service()
    witness.check_all()
