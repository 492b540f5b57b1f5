"""The driver is killed at the worst moments; afterwards the topic holds every input once.

A zombie of the killed run tries to commit afterwards, with the transaction it still believes to be its own.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.apache_kafka import start_kafka
from benchmarks.broker_process import wait_until
from tests.pipelines.processes import Pipeline, kill, run, run_until_killed, spawn
from tests.pipelines.topics import Record, produce, read_all
from tests.servers.tools import require_kafka

MakeTopic = Callable[..., str]


def fill(bootstrap: str, topic: str, count: int) -> None:
    produce(bootstrap, topic, [Record(key=f"k{n % 31}".encode(), value=str(n).encode()) for n in range(count)])


def check(bootstrap: str, topic: str, count: int) -> None:
    """Every input once, and those of a key in their order."""
    written = read_all(bootstrap, topic)
    copies = Counter(record.value for record in written)
    assert copies == Counter(str(n).encode() for n in range(count)), (
        f"lost {count - len(copies)}, more than once {sum(n > 1 for n in copies.values())}"
    )
    for key in {record.key for record in written}:
        numbers = [int(record.value or b"") for record in written if record.key == key]
        assert numbers == sorted(numbers), key


def die_at_every_worst_moment(pipeline: Pipeline, place: Path, count: int) -> None:
    output = place / "output"
    run_until_killed(pipeline, output, "open", place / "open")
    run_until_killed(pipeline, output, "partial", place / "partial")
    (place / "open" / "resume").touch()
    run_until_killed(pipeline, output, "committed", place / "committed")
    run(pipeline, output)
    check(pipeline.bootstrap, pipeline.sink, count)
    # Every zombie was refused: it had lost its transactional id to the run after it.
    wait_until(lambda: list((place / "open").glob("zombie-*")) != [], "a zombie has tried", 120)
    outcomes = {path.read_text() for path in (place / "open").glob("zombie-*")}
    assert "committed" not in outcomes, outcomes
    check(pipeline.bootstrap, pipeline.sink, count)


@pytest.mark.timeout(1800)
def test_the_driver_dies_at_the_worst_moments(
    requirements: None, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=3), make_topic(partitions=3)
    fill(bootstrap, source, 1200)
    pipeline = Pipeline(
        bootstrap=bootstrap, source=source, sink=sink, checkpoint=str(tmp_path / "checkpoint"), per_batch=300
    )
    die_at_every_worst_moment(pipeline, tmp_path, 1200)


@pytest.mark.long
@pytest.mark.java
@pytest.mark.timeout(3600)
def test_the_same_on_apache_kafka(requirements: None, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    require_kafka()
    with start_kafka(tmp_path / "kafka") as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.create_topics([NewTopic(name, 3, 1) for name in ("in", "out")]).values():
            future.result()
        fill(kafka.bootstrap, "in", 1200)
        pipeline = Pipeline(
            bootstrap=kafka.bootstrap, source="in", sink="out", checkpoint=str(tmp_path / "checkpoint"), per_batch=300
        )
        die_at_every_worst_moment(pipeline, tmp_path, 1200)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_driver_dies_at_random_moments(
    requirements: None, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, sink = make_topic(partitions=4), make_topic(partitions=6)
    count, rounds, chance = 60_000, 10, random.Random(20261116)
    fill(bootstrap, source, count)
    pipeline = Pipeline(
        bootstrap=bootstrap, source=source, sink=sink, checkpoint=str(tmp_path / "checkpoint"), per_batch=2000
    )
    output, commits = tmp_path / "output", tmp_path / "checkpoint" / "commits"
    for _ in range(rounds):
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
        finally:
            kill(process)
    run(replace(pipeline, per_batch=20_000), output)
    check(bootstrap, sink, count)
