"""Drivers, executors and brokers are killed; afterwards topic and tables hold every input once.

The driver dies at the worst moments on purpose. A zombie of the killed run tries to commit afterwards, with the
transaction it still believes to be its own. `test_cluster` has the executors.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.driver import Pipeline, start
from tests.pipelines.inputs import ROUNDS, check, check_tables, fill
from tests.pipelines.processes import kill, run_until_killed, spawn
from tests.servers.apache_kafka import start_kafka
from tests.servers.tools import require_kafka
from tests.waiting import wait_until

from tidelog.pipelines.delivery.sink_state import FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]
FINISH_TIMEOUT_S = 400.0


def finish(spark: SparkSession, pipeline: Pipeline) -> None:
    """The last run, in this process."""
    queries = start(spark, pipeline)
    try:
        assert all(query.awaitTermination(FINISH_TIMEOUT_S) for query in queries)
    finally:
        for query in queries:
            query.stop()


def check_zombies(place: Path) -> None:
    """Every zombie was refused: it had lost its transactional id to whoever came after it."""
    (place / "resume").touch()
    wait_until(lambda: list(place.glob("zombie-*")) != [], "a zombie has tried", 120)
    outcomes = {path.read_text() for path in place.glob("zombie-*")}
    assert "committed" not in outcomes, outcomes


def die_at_every_worst_moment(
    spark: SparkSession,
    pipeline: Pipeline,
    place: Path,
    moments: tuple[str, ...] = ("open", "partial", "committed"),
) -> None:
    output, count = place / "output", 0
    for moment in moments:
        # Something new for every query, however far those came before the death of the last run.
        fill(pipeline.bootstrap, pipeline.source, 300, first=count)
        count += 300
        run_until_killed(pipeline, output, moment, place / moment)
    finish(spark, pipeline)
    check(pipeline.bootstrap, pipeline.sink, count)
    check_tables(spark, pipeline, count)
    check_zombies(place / "open")
    check(pipeline.bootstrap, pipeline.sink, count)


@pytest.mark.timeout(1800)
def test_the_driver_dies_at_the_worst_moments(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=3), make_topic(partitions=3)
    pipeline = Pipeline(bootstrap=bootstrap, source=source, sink=sink, state=str(tmp_path), per_batch=200)
    die_at_every_worst_moment(spark, pipeline, tmp_path)


@pytest.mark.timeout(1800)
def test_the_driver_dies_at_the_worst_moments_of_a_shuffle(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The general case: lanes are sets of target partitions, and a task has rows of all source partitions."""
    source, sink = make_topic(partitions=2), make_topic(partitions=3)
    pipeline = Pipeline(
        bootstrap=bootstrap, source=source, sink=sink, state=str(tmp_path), per_batch=200, tables=(), shuffled=True
    )
    die_at_every_worst_moment(spark, pipeline, tmp_path, ("open", "partial"))
    layouts = json.loads((tmp_path / "checkpoint-topic" / FILE).read_text())["layouts"]
    assert [layout["by_source"] for layout in layouts] == [False]


@pytest.mark.long
@pytest.mark.java
@pytest.mark.timeout(3600)
def test_the_same_on_apache_kafka(spark: SparkSession, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    require_kafka()
    with start_kafka(tmp_path / "kafka") as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.create_topics([NewTopic(name, 3, 1) for name in ("in", "out")]).values():
            future.result()
        pipeline = Pipeline(bootstrap=kafka.bootstrap, source="in", sink="out", state=str(tmp_path), per_batch=200)
        die_at_every_worst_moment(spark, pipeline, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_driver_dies_at_random_moments(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=4), make_topic(partitions=6)
    count, chance = 6000 * ROUNDS, random.Random(20261116)
    fill(bootstrap, source, count)
    tables = ("parquet", "delta", "iceberg")
    pipeline = Pipeline(
        bootstrap=bootstrap, source=source, sink=sink, state=str(tmp_path), per_batch=2000, tables=tables
    )
    output, commits = tmp_path / "output", tmp_path / "checkpoint-topic" / "commits"
    for _ in range(ROUNDS):
        done = len(list(commits.glob("[0-9]*")))
        process = spawn(pipeline, output)
        try:
            # Some batches after the start, and then at any moment of the next one.
            wait_until(
                lambda: process.poll() is not None or len(list(commits.glob("[0-9]*"))) > done,  # noqa: B023
                "a batch is done",
                400,
            )
            time.sleep(chance.uniform(0, 1.5))
            # It may be done with everything; one that broke by itself was not killed.
            assert process.poll() in (None, 0), output.read_text()[-3000:]
        finally:
            kill(process)
    finish(spark, replace(pipeline, per_batch=20_000))
    check(bootstrap, sink, count)
    check_tables(spark, pipeline, count)
