"""A query runs on a cluster of three whose leaders are killed under it: its topic holds every input once."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.cluster.conftest import SETTINGS
from tests.faults.cluster.load import create_topic, is_whole, wait_for
from tests.pipelines.driver import Pipeline, start
from tests.pipelines.inputs import check, fill

from tidelog.cli.local_cluster import LocalCluster
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 900
PER_BATCH = 180
FINISH_TIMEOUT_S = 300.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    arguments = ["--log-level", "error"]
    for name, value in SETTINGS.items():
        arguments += ["-o", f"{name}={value}"]
    running = LocalCluster(nodes=3, data=tmp_path / "cluster", host="127.0.0.1", port=0, arguments=arguments)
    running.start()
    try:
        yield running
    finally:
        running.stop()


@pytest.mark.timeout(900)
def test_leaders_die_under_a_running_query(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """A query that gives up is started again, as the supervisor of a pipeline does."""
    bootstrap = cluster.bootstrap
    source, sink = create_topic(bootstrap), create_topic(bootstrap)
    fill(bootstrap, source, COUNT)
    pipeline = Pipeline(
        bootstrap=bootstrap, source=source, sink=sink, state=str(tmp_path), per_batch=PER_BATCH, tables=()
    )
    commits = tmp_path / "checkpoint-topic" / "commits"
    targets = [sink, source]
    [query] = start(spark, pipeline)
    done, deadline_s, starts = 0, time.monotonic() + FINISH_TIMEOUT_S, 1
    try:
        while query.isActive or query.exception() is not None:
            if time.monotonic() >= deadline_s:
                raise TimeoutError(f"{done} batches in time")
            if not query.isActive:
                [query] = start(spark, pipeline)
                starts += 1
            batches = len(list(commits.glob("[0-9]*")))
            if targets and batches > done:
                done = batches
                state = wait_for(bootstrap, is_whole, "a whole cluster")
                victim = state.partitions[TopicPartition(targets.pop(), 0)].leader
                cluster.send_signal(victim, signal.SIGKILL)
                cluster.start_again(victim)
            time.sleep(0.05)
    finally:
        query.stop()
    assert not targets, "both leaders died while there was work left"
    print(f"the query was started {starts} times")
    check(bootstrap, sink, COUNT)
