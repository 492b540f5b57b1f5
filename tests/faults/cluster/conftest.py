"""A cluster of three real processes for all tests here; each leaves it whole."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.servers.local_cluster import run_local_cluster

from tidelog.cli.local_cluster import LocalCluster

SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture(scope="session")
def cluster_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="session")
def running_cluster(cluster_data: Path) -> Iterator[LocalCluster]:
    with run_local_cluster(cluster_data, SETTINGS) as running:
        yield running


@pytest.fixture
def cluster(running_cluster: LocalCluster) -> LocalCluster:
    """What a test that failed left dead or stopped is not to fail the next one."""
    running_cluster.start_again(*running_cluster.ended)
    for node_id in running_cluster.pids:
        running_cluster.send_signal(node_id, signal.SIGCONT)
    return running_cluster
