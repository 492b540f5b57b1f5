"""A cluster of three real processes, one per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.cli.local_cluster import LocalCluster

SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    arguments = ["--log-level", "warning"]
    for name, value in SETTINGS.items():
        arguments += ["-o", f"{name}={value}"]
    running = LocalCluster(nodes=3, data=tmp_path, host="127.0.0.1", port=0, arguments=arguments)
    running.start()
    try:
        yield running
    finally:
        running.stop()
