"""Tables: appended and upserted, once, with columns that come later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipelines.topics import Record, produce

from tidelog.pipelines import PipelineError, read_table, read_topic, write_table
from tidelog.pipelines.jobs.compact import compact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)
MakeTopic = Callable[..., str]


def stream(df: Any, path: str, checkpoint: str, **arguments: Any) -> None:
    query = write_table(df, path, checkpoint=checkpoint, trigger="available-now", **arguments)
    try:
        assert query.awaitTermination(800)
    finally:
        query.stop()


def forget_last_commit(checkpoint: str) -> None:
    """As if the driver had ended after the table's commit and before the checkpoint was told."""
    commits = sorted((Path(checkpoint) / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink()


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_append_partition_evolve_and_run_again(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, table_format: str
) -> None:
    topic, path, checkpoint = make_topic(partitions=2), str(tmp_path / "table"), str(tmp_path / "checkpoint")
    produce(bootstrap, topic, [Record(key=f"k{n % 3}".encode(), value=str(n).encode()) for n in range(60)])
    df = read_topic(spark, topic, bootstrap=bootstrap, value="text", stream=True, max_offsets_per_trigger=40)
    if table_format == "delta":
        # What a driver leaves that is killed during the first commit.
        (tmp_path / "table" / "_delta_log").mkdir(parents=True)
        (tmp_path / "table" / "_delta_log" / ".00000000000000000000.json.0.tmp").touch()
    stream(df, path, checkpoint, format=table_format, partition_by=("key",))
    forget_last_commit(checkpoint)
    stream(df, path, checkpoint, format=table_format, partition_by=("key",))
    rows = read_table(spark, path, format=table_format).select("value", "topic", "offset", "headers", "key").collect()
    assert sorted(int(row.value) for row in rows) == list(range(60))
    added = spark.createDataFrame([("k9", "new", 1.5)], "key STRING, value STRING, price DOUBLE")
    write_table(added, path, format=table_format, partition_by=("key",))
    table = read_table(spark, path, format=table_format)
    assert (table.count(), table.where("price = 1.5").count(), table.where("price IS NULL").count()) == (61, 1, 60)


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_upsert_by_key_and_delete_on_tombstone(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, table_format: str
) -> None:
    topic, path, checkpoint = make_topic(), str(tmp_path / "table"), str(tmp_path / "checkpoint")
    arguments: dict[str, Any] = {"format": table_format, "mode": "upsert", "key": "key"}

    def run(*changes: tuple[str, str | None], columns: str = "key, value, offset") -> dict[str, str]:
        records = [Record(key=key.encode(), value=value.encode() if value else None) for key, value in changes]
        produce(bootstrap, topic, records)
        df = read_topic(spark, topic, bootstrap=bootstrap, value="text", stream=True)
        stream(df.selectExpr(*columns.split(", ")), path, checkpoint, **arguments)
        return {row.key: row.value for row in read_table(spark, path, format=table_format).collect()}

    assert run(("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("c", None)) == {"a": "2", "b": "1"}
    # The last row of a key wins, also when it deletes; a column that is new is added.
    now = run(("b", None), ("a", "3"), ("d", "1"), columns="key, value, offset, length(value) AS size")
    assert now == {"a": "3", "d": "1"}
    assert read_table(spark, path, format=table_format).where("size = 1").count() == 2
    forget_last_commit(checkpoint)
    assert run() == {"a": "3", "d": "1"}


@pytest.mark.parametrize("table_format", ["parquet", "delta", "iceberg"])
def test_a_column_that_changed_its_type_is_named(spark: SparkSession, tmp_path: Path, table_format: str) -> None:
    path = str(tmp_path / "table")
    write_table(spark.createDataFrame([("a", 1)], "key STRING, n BIGINT"), path, format=table_format)
    for other in ("STRING", "STRUCT<x: INT>"):
        changed = spark.createDataFrame([("b", None)], f"key STRING, n {other}")
        with pytest.raises(PipelineError, match=f"column n of {path} is bigint, not {other[:6].lower()}") as caught:
            write_table(changed, path, format=table_format)
        assert "\n" not in str(caught.value)
    assert [tuple(row) for row in read_table(spark, path, format=table_format).collect()] == [("a", 1)]


def test_a_parquet_commit_that_was_cut_short_is_finished(spark: SparkSession, tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "table", str(tmp_path / "checkpoint")
    df = spark.range(10)
    write_table(df, str(path), checkpoint=checkpoint)
    [home] = (path / "_tidelog").glob("tidelog-*")
    # As if the run had ended among its renames: some files are in place, some are not, and the batch is not done.
    (home / "progress.json").unlink()
    moved = sorted(path.glob("part-*.parquet"))
    assert len(moved) >= 2
    staged = home / "staging"
    staged.mkdir()
    manifest = (home / "manifest.json").read_text()
    source = next(part for part in manifest.split('"') if "/staging/" in part)
    target = manifest.partition(f'"{source}", "')[2].partition('"')[0]
    # Whoever finishes the batch looks for its files: they are not for others to merge.
    assert compact(spark, str(path)).files_removed == 0
    (path / target).rename(path / source)
    write_table(df, str(path), checkpoint=checkpoint)
    assert sorted(row.id for row in read_table(spark, str(path)).collect()) == list(range(10))
    assert sorted(path.glob("part-*.parquet")) == moved
    assert compact(spark, str(path)).files_removed == len(moved)
    assert sorted(row.id for row in read_table(spark, str(path)).collect()) == list(range(10))


def test_wrong_arguments_are_one_line(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame([("a", 1)], "key STRING, n INT")
    path = str(tmp_path / "table")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"format": "csv"}, "parquet, delta, iceberg"),
        ({"mode": "replace"}, "'append' or 'upsert'"),
        ({"mode": "upsert", "key": "key"}, "needs format='delta' or 'iceberg'"),
        ({"mode": "upsert", "format": "delta"}, "no key is named"),
        ({"mode": "upsert", "format": "delta", "key": "id"}, "no column id"),
        ({"partition_by": ("day",)}, "partition_by: no column day"),
        ({"trigger": "continuous 1 second"}, "continuous"),
        ({"output_mode": "update"}, "mode='upsert'"),
    ]
    for arguments, message in wrong:
        with pytest.raises(PipelineError, match=message) as caught:
            write_table(df, path, **arguments)
        assert "\n" not in str(caught.value)
    write_table(df, path, checkpoint=str(tmp_path / "checkpoint"))
    with pytest.raises(PipelineError, match="partitioned by nothing, not by key"):
        write_table(df, path, partition_by=("key",))
    with pytest.raises(PipelineError, match="use another one"):
        write_table(df, f"{path}-2", checkpoint=str(tmp_path / "checkpoint"))
