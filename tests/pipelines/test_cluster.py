"""The same pipeline on a standalone cluster: one master, two workers, tasks in both, and executors that are killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.driver import Pipeline
from tests.pipelines.inputs import ROUNDS, check, check_tables, fill
from tests.pipelines.processes import RUN_TIMEOUT_S, deadly, kill, run, spawn, standalone_cluster
from tests.pipelines.test_kills import check_zombies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]


@pytest.mark.timeout(1200)
def test_exactly_once_on_two_workers_though_an_executor_dies(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, sink, place = make_topic(partitions=4), make_topic(partitions=4), tmp_path / "executor"
    fill(bootstrap, source, 2000)
    place.mkdir()
    with standalone_cluster(tmp_path, workers=2, environment=deadly("executor", place)) as (master, workers):
        pipeline = Pipeline(
            bootstrap=bootstrap, source=source, sink=sink, state=str(tmp_path), per_batch=1000, master=master
        )
        run(pipeline, tmp_path / "output")
        check(bootstrap, sink, 2000)
        check_tables(spark, pipeline, 2000)
        # Each executor fetched the package from the driver, which it does with its first task.
        for worker in workers:
            assert list(worker.directory.glob("app-*/*/tidelog-*.zip")), f"no task ran in {worker.directory}"
        # Rows of an open transaction were in the topic when its executor died: another one took over, and the
        # worker that was left behind was refused.
        assert len([*tmp_path.glob("worker-*/app-*/*/stderr")]) > len(workers), "no executor was started again"
        check_zombies(place)
    check(bootstrap, sink, 2000)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_executors_die_at_random_moments(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=4), make_topic(partitions=4)
    count, kills, chance = 6000 * ROUNDS, 0, random.Random(20261116)
    fill(bootstrap, source, count)
    with standalone_cluster(tmp_path, workers=2) as (master, workers):
        pipeline = Pipeline(
            bootstrap=bootstrap, source=source, sink=sink, state=str(tmp_path), per_batch=500, master=master
        )
        process = spawn(pipeline, tmp_path / "output")
        try:
            deadline = time.monotonic() + 5 * RUN_TIMEOUT_S
            while process.poll() is None:
                if time.monotonic() >= deadline:
                    raise TimeoutError((tmp_path / "output").read_text()[-3000:])
                time.sleep(chance.uniform(1, 8))
                executors = chance.choice(workers).executors()
                if executors and kills < ROUNDS:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(executors[0], signal.SIGKILL)
                        kills += 1
            assert process.returncode == 0, (tmp_path / "output").read_text()[-3000:]
        finally:
            kill(process)
    assert kills > 0
    check(bootstrap, sink, count)
    check_tables(spark, pipeline, count)
