"""A query runs on a cluster of three whose leaders are killed under it: its topic holds every input once."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.cluster.conftest import SETTINGS
from tests.faults.cluster.load import create_topic, is_whole, wait_for
from tests.pipelines.driver import Pipeline, start
from tests.pipelines.inputs import check, fill
from tests.servers.local_cluster import run_local_cluster
from tests.waiting import wait_until

from tidelog.cli.local_cluster import LocalCluster
from tidelog.model.ids import TopicPartition
from tidelog.pipelines.delivery.checkpoint import files_in
from tidelog.pipelines.errors import Unreachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 300
"""Records before, and after, the death of a leader."""
PER_BATCH = 180
FINISH_TIMEOUT_S = 300.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with run_local_cluster(tmp_path / "cluster", SETTINGS, log_level="error") as running:
        yield running


class Restarted:
    """A query that is started again when it gives up, as the supervisor of a pipeline does."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._spark, self._pipeline = spark, pipeline
        self._files = files_in(spark, f"{pipeline.state}/checkpoint-topic")
        [self._query] = start(spark, pipeline)
        self.starts = 1

    def read_on(self, least: int) -> None:
        """Waits until so many records of the source were read and written."""

        def read() -> int:
            return sum(self._files.positions().get(self._pipeline.source, {}).values())

        def is_read() -> bool:
            if read() >= least:
                return True
            if not self._query.isActive:
                with contextlib.suppress(Unreachable):
                    [self._query] = start(self._spark, self._pipeline)
                    self.starts += 1
            return False

        wait_until(
            is_read, lambda: f"{least} records, read {read()}; {self.starts} starts", FINISH_TIMEOUT_S, interval_s=0.1
        )

    def stop(self) -> None:
        self._query.stop()


@pytest.mark.timeout(900)
def test_leaders_die_under_a_running_query(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    """Records come before and after each death, so that there is always work left."""
    bootstrap, count = cluster.bootstrap, 0
    source, sink = create_topic(bootstrap), create_topic(bootstrap)
    pipeline = Pipeline(
        bootstrap=bootstrap,
        source=source,
        sink=sink,
        state=str(tmp_path),
        per_batch=PER_BATCH,
        tables=(),
        trigger="100 milliseconds",
    )
    query = Restarted(spark, pipeline)
    try:
        for topic in (source, sink):
            state = wait_for(bootstrap, is_whole, "a whole cluster")
            victim = state.partitions[TopicPartition(topic, 0)].leader
            fill(bootstrap, source, COUNT, first=count)
            query.read_on(count + 1)
            cluster.send_signal(victim, signal.SIGKILL)
            fill(bootstrap, source, COUNT, first=count + COUNT)
            cluster.start_again(victim)
            count += 2 * COUNT
            query.read_on(count)
    finally:
        query.stop()
    print(f"the query was started {query.starts} times")
    check(bootstrap, sink, count)
