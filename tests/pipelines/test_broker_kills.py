"""The broker is killed under a running pipeline and comes back; afterwards topic and table hold every input once."""

from __future__ import annotations

import random
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.pipelines.inputs import ROUNDS, check, check_table, fill
from tests.servers.broker_process import BrokerProcess, free_port
from tests.servers.tidelog_node import start_tidelog
from tests.waiting import wait_until

from tidelog.pipelines.run.runner import PipelineRun
from tidelog.pipelines.spec.read import read_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN_TIMEOUT_S = 500.0
PIPELINE = """\
trigger: 50ms
restart: {delay: 100ms, delay-max: 1s}
sources: {numbers: {topic: in, value: bytes, key: bytes, records-per-batch: %d}}
sinks:
  topic: {from: numbers, topic: out, key: key, value: value}
  table: {from: numbers, table: ./table}
"""


class Mortal:
    """A node that is killed and started again on its port and its data."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = start_tidelog(directory, port=free_port())

    @property
    def bootstrap(self) -> str:
        return self._process.bootstrap

    def die(self) -> None:
        self._process.kill()

    def come_back(self) -> None:
        self._process = start_tidelog(self._directory, port=self._process.port)

    def end(self) -> BrokerProcess:
        self._process.kill()
        return self._process


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Mortal]:
    node = Mortal(tmp_path / "node")
    yield node
    node.end()


@contextmanager
def running(run: PipelineRun) -> Iterator[None]:
    """The pipeline runs beside what is done to its broker."""
    outcome: list[bool] = []
    thread = threading.Thread(target=lambda: outcome.append(run.run()))
    thread.start()
    try:
        yield
    finally:
        run.stop.set()
        thread.join(RUN_TIMEOUT_S)
    assert outcome == [True], [status.error for status in run.statuses]


class Outcome(NamedTuple):
    lines: list[str]
    """What the pipeline has reported."""
    unread: list[int]
    """Of each query and each round: the records it had still to read when the broker came back."""


def records_read(run: PipelineRun) -> list[int]:
    """By each query."""
    return [sum(status.positions.get("in", {}).values()) for status in run.statuses]


def kill_under_a_pipeline(
    spark: SparkSession,
    node: Mortal,
    place: Path,
    *,
    rounds: int,
    seed: int,
    per_round: int = 400,
    per_batch: int = 100,
    away_s: tuple[float, float] = (0, 3),
) -> Outcome:
    """Kills the broker in every round for as long as `away_s` says."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.create_topics([NewTopic(name, 3, 1) for name in ("in", "out")]).values():
        future.result()
    path = place / "pipeline.yaml"
    path.write_text(textwrap.dedent(PIPELINE % per_batch))
    lines: list[str] = []
    unread: list[int] = []
    run = PipelineRun(
        read_pipeline(path), bootstrap=node.bootstrap, report=lines.append, show_rows=lambda *_: None, spark=spark
    )
    chance, count = random.Random(seed), 0
    with running(run):
        for _ in range(rounds):
            fill(node.bootstrap, "in", per_round, first=count)
            count += per_round
            batches = [status.batches for status in run.statuses]
            wait_until(
                lambda: all(status.batches > seen for status, seen in zip(run.statuses, batches, strict=True)),  # noqa: B023
                f"both queries go on: {lines}",
                RUN_TIMEOUT_S,
            )
            # At any moment of a batch.
            time.sleep(chance.uniform(0, 1))
            node.die()
            time.sleep(chance.uniform(*away_s))
            # Looked at only now: a batch whose records had come ends after the death.
            unread += (count - read for read in records_read(run))
            node.come_back()
        wait_until(
            lambda: all(read == count for read in records_read(run)),
            f"everything is read: {lines}",
            RUN_TIMEOUT_S,
        )
    check(node.bootstrap, "out", count)
    check_table(spark, str(place / "table"), "parquet", count)
    return Outcome(lines, unread)


@pytest.mark.timeout(1200)
def test_the_broker_dies_under_a_running_pipeline(spark: SparkSession, mortal: Mortal, tmp_path: Path) -> None:
    kill_under_a_pipeline(spark, mortal, tmp_path, rounds=2, seed=1)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_broker_dies_many_times(spark: SparkSession, mortal: Mortal, tmp_path: Path) -> None:
    kill_under_a_pipeline(spark, mortal, tmp_path, rounds=2 * ROUNDS, seed=2)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_broker_is_away_for_minutes(spark: SparkSession, mortal: Mortal, tmp_path: Path) -> None:
    """Longer than a consumer waits for a record (two minutes) and a query for the ends of its topics (three)."""
    # A hundred and fifty batches for each query: neither can have read all of it when the broker goes.
    lines, unread = kill_under_a_pipeline(
        spark, mortal, tmp_path, rounds=1, seed=3, per_round=3000, per_batch=20, away_s=(200, 200)
    )
    assert all(unread), unread
    # A transaction may have outlived it, but not the query of the table; who has to start again says who was away, and
    # nothing else.
    assert lines
    assert all(f": no broker answers at {mortal.bootstrap}" in line for line in lines), lines
