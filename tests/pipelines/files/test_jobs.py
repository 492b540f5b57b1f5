"""Archive, audit, replay and compact on a real node and real tables."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.pipelines.files.bench import Bench

from tidelog.pipelines import read_table, write_table
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.jobs.archive import Archive, archive_pipeline
from tidelog.pipelines.jobs.audit import audit
from tidelog.pipelines.jobs.compact import compact
from tidelog.pipelines.jobs.replay import Replay, replay
from tidelog.pipelines.run.runner import PipelineRun

HEADERS = [("origin", b"test"), ("empty", b""), ("none", None)]


def fill(bench: Bench, topic: str, numbers: range) -> None:
    """Records of 5 keys, some without a value, with headers and timestamps a second apart."""
    producer = Producer({"bootstrap.servers": bench.bootstrap, "partitioner": "murmur2_random"})
    for number in numbers:
        value = None if number % 10 == 9 else f"value {number}".encode()
        key = None if number % 7 == 6 else f"key {number % 5}".encode()
        producer.produce(topic, value, key, timestamp=1_794_816_000_000 + number * 1000, headers=HEADERS[: number % 4])
    assert producer.flush(30) == 0


class Waits(threading.Event):
    """Nobody sets it; it remembers until when it was waited for, and lets nobody wait."""

    def __init__(self) -> None:
        super().__init__()
        self.until: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.until.append(time.monotonic() + (timeout or 0))
        return False


def archive(bench: Bench, path: Path, *topics: str, table_format: str = "") -> int:
    run = PipelineRun(
        archive_pipeline(Archive(topics=topics, path=str(path), format=table_format)),
        bootstrap=bench.bootstrap,
        report=bench.lines.append,
        show_rows=lambda *_: None,
        spark=bench.spark,
    )
    assert run.run(), bench.lines
    return run.statuses[0].rows_in


def contents(records: list[Any]) -> dict[bytes | None, list[Any]]:
    """Value, headers and timestamp of each record, in order for each key."""
    found: dict[bytes | None, list[Any]] = {}
    for record in records:
        found.setdefault(record.key(), []).append((record.value(), record.headers(), record.timestamp()[1]))
    return found


def live_files(bench: Bench, table: Path, table_format: str) -> int:
    """How many files the newest state of a table is in."""
    name = "_file" if table_format == "iceberg" else "_metadata.file_path"
    return int(read_table(bench.spark, str(table), format=table_format).select(name).distinct().count())


def test_archive_audit_replay_and_compact(bench: Bench, tmp_path: Path) -> None:
    topic, table = bench.topic(partitions=3), tmp_path / "archive"
    fill(bench, topic, range(60))
    assert archive(bench, table, topic) == 60
    fill(bench, topic, range(60, 100))
    behind = audit(bench.spark, topic, str(table), bootstrap=bench.bootstrap)
    assert not behind.is_same
    assert sum(partition.behind for partition in behind.partitions) == 40
    assert all(partition.is_same for partition in behind.partitions)

    assert archive(bench, table, topic) == 40, "the archive did not resume where it was"
    same = audit(bench.spark, topic, str(table), bootstrap=bench.bootstrap)
    assert same.is_same
    assert [partition.verdict for partition in same.partitions] == ["same"] * 3
    assert sum(partition.table.rows for partition in same.partitions) == 100
    assert (table / f"topic={topic}" / "date=2026-11-16").is_dir()

    files = len(list(table.rglob("*.parquet")))
    compacted = compact(bench.spark, str(table))
    assert (compacted.files_removed, compacted.files_added) == (files, 1)
    assert len([path for path in table.rglob("*.parquet") if "_tidelog" not in path.parts]) == 1
    assert compact(bench.spark, str(table)).files_removed == 0
    assert audit(bench.spark, topic, str(table), bootstrap=bench.bootstrap).is_same

    target = bench.topic("target", partitions=2)
    steps: list[int] = []
    request = Replay(path=str(table), topic=target, rate=25)
    began, waits = time.monotonic(), Waits()
    done = replay(
        bench.spark, request, bootstrap=bench.bootstrap, progress=lambda rows, _total: steps.append(rows), stop=waits
    )
    assert (done.rows, done.complete, done.resumed) == (100, True, False)
    # Each slice waits until the rows before it were due.
    assert [until - began >= rows / request.rate for until, rows in zip(waits.until, [0, *steps], strict=False)] == [
        True,
        True,
    ]
    assert steps[-1] == 100
    assert len(steps) == 2
    keyed = contents(bench.records(topic, 3))
    replayed = contents(bench.records(target, 2))
    # Records without a key have no order among partitions to keep.
    assert sorted(map(repr, keyed.pop(None))) == sorted(map(repr, replayed.pop(None)))
    assert replayed == keyed


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_the_same_on_tables_with_a_log_of_their_own(bench: Bench, tmp_path: Path, table_format: str) -> None:
    topic, target, table = bench.topic(partitions=2), bench.topic("target", partitions=1), tmp_path / "archive"
    fill(bench, topic, range(30))
    assert archive(bench, table, topic, table_format=table_format) == 30
    fill(bench, topic, range(30, 50))
    assert archive(bench, table, topic) == 20, "the archive did not go on where it was, in the format it has"
    with pytest.raises(PipelineError, match=f"archive is a table in the format {table_format}, not parquet; say"):
        archive(bench, table, topic, table_format="parquet")
    assert list(table.glob(f"**/topic={topic}/date=2026-11-16/*.parquet")), "not partitioned by topic and date"

    files = live_files(bench, table, table_format)
    assert files > 1
    compacted = compact(bench.spark, str(table))
    assert (compacted.format, compacted.files_removed, compacted.files_added) == (table_format, files, 1)
    assert live_files(bench, table, table_format) == 1
    assert compact(bench.spark, str(table)).files_removed == 0
    same = audit(bench.spark, topic, str(table), bootstrap=bench.bootstrap)
    assert (same.format, same.is_same) == (table_format, True)
    assert sum(partition.table.rows for partition in same.partitions) == 50
    for partition in same.as_document()["partitions"]:
        assert re.fullmatch("[0-9a-f]{16}", partition["log"]["checksum"])

    done = replay(bench.spark, Replay(path=str(table), topic=target), bootstrap=bench.bootstrap)
    assert (done.rows, done.complete) == (50, True)
    keyed, replayed = contents(bench.records(topic, 2)), contents(bench.records(target))
    assert sorted(map(repr, keyed.pop(None))) == sorted(map(repr, replayed.pop(None)))
    assert replayed == keyed
    # A table that was compacted is still one that the archive goes on with.
    fill(bench, topic, range(50, 55))
    assert archive(bench, table, topic, table_format=table_format) == 5
    assert read_table(bench.spark, str(table), format=table_format).count() == 55


def test_an_archive_may_get_more_topics_and_forgets_mistakes(bench: Bench, tmp_path: Path) -> None:
    table, first, second = tmp_path / "archive", bench.topic("first", partitions=1), bench.topic("second", partitions=1)
    fill(bench, first, range(5))
    fill(bench, second, range(7))
    with pytest.raises(PipelineError, match="topic no-such-topic does not exist"):
        archive(bench, table, "no-such-topic")
    assert not table.exists(), "an archive that was refused left something behind"
    assert archive(bench, table, first) == 5
    with pytest.raises(PipelineError, match="topic no-such-topic does not exist"):
        archive(bench, table, first, "no-such-topic")
    fill(bench, first, range(5, 8))
    assert archive(bench, table, second, first) == 3 + 7
    with pytest.raises(PipelineError, match=f"is an archive of {second} too; name it as well"):
        archive(bench, table, first)
    for topic in (first, second):
        assert audit(bench.spark, topic, str(table), bootstrap=bench.bootstrap).is_same


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_an_audit_lists_what_differs(bench: Bench, tmp_path: Path, table_format: str) -> None:
    topic, table = bench.topic(partitions=1), tmp_path / "archive"
    fill(bench, topic, range(20))
    archive(bench, table, topic)
    damaged = tmp_path / "damaged"
    rows = bench.spark.read.parquet(str(table))
    rest = ["headers", "topic", "partition"]
    other = "IF(offset = 5, CAST('other' AS BINARY), value) AS value"
    changed = rows.where("offset <> 3").selectExpr("key", other, *rest, "offset", "timestamp")
    again = changed.where("offset = 8")
    ahead = changed.where("offset = 7").selectExpr("key", "value", *rest, "77L AS offset", "timestamp")
    write_table(changed.union(again).union(ahead).coalesce(1), str(damaged), format=table_format)
    found = audit(bench.spark, topic, str(damaged), bootstrap=bench.bootstrap)
    assert not found.is_same
    assert [(difference.offset, difference.what) for difference in found.differences] == [
        (3, "missing in the table"),
        (5, "other content"),
        (8, "2 times in the table"),
        (77, "in the table, not in the log"),
    ]
    assert found.as_document()["partitions"][0]["verdict"] == "DIFFERENT"


def test_a_replay_of_a_time_range_goes_on_where_it_was_interrupted(bench: Bench, tmp_path: Path) -> None:
    topic, table, target = bench.topic(partitions=2), tmp_path / "archive", bench.topic("target", partitions=1)
    fill(bench, topic, range(40))
    archive(bench, table, topic)
    start = 1_794_816_000_000
    request = Replay(path=str(table), topic=target, from_ms=start + 10_000, until_ms=start + 30_000, rate=5)
    stop = threading.Event()
    first = replay(bench.spark, request, bootstrap=bench.bootstrap, progress=lambda *_: stop.set(), stop=stop)
    assert not first.complete
    assert 0 < first.rows < 20
    with pytest.raises(PipelineError, match="with other arguments was interrupted"):
        replay(bench.spark, Replay(path=str(table), topic=target), bootstrap=bench.bootstrap)
    second = replay(bench.spark, request, bootstrap=bench.bootstrap)
    assert (second.resumed, second.complete, second.rows) == (True, True, 20)
    times = sorted(record.timestamp()[1] for record in bench.records(target))
    assert times == [start + number * 1000 for number in range(10, 30)]


def test_jobs_say_what_does_not_fit(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="does not exist; `tidelog archive TOPIC --to"):
        audit(bench.spark, bench.topic(), str(tmp_path / "nothing"), bootstrap=bench.bootstrap)
    with pytest.raises(PipelineError, match="nothing does not exist; "):
        read_table(bench.spark, str(tmp_path / "nothing"))
    with pytest.raises(PipelineError, match="no_such_table does not exist: there is no such directory, and no such"):
        read_table(bench.spark, "no_such_table", format="iceberg")
    bench.spark.range(3).write.parquet(str(tmp_path / "other"))
    with pytest.raises(PipelineError, match="other is a table in the format parquet, not delta; say parquet"):
        read_table(bench.spark, str(tmp_path / "other"), format="delta")
    with pytest.raises(PipelineError, match="other is a table in the format parquet, not delta; say parquet"):
        write_table(bench.spark.range(3), str(tmp_path / "other"), format="delta")
    with pytest.raises(PipelineError, match="other is no archive of a topic: it has no column partition, offset, key"):
        audit(bench.spark, bench.topic(), str(tmp_path / "other"), bootstrap=bench.bootstrap)
    with pytest.raises(PipelineError, match="is no archive of a topic: it has no column key, value"):
        replay(bench.spark, Replay(path=str(tmp_path / "other"), topic="t"), bootstrap=bench.bootstrap)
    with pytest.raises(PipelineError, match="is a table of a catalog; say with --checkpoint"):
        archive_pipeline(Archive(topics=["a"], path="lake.orders", format="iceberg"))
