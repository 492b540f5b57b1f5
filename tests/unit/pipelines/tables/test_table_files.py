"""What the files of a table say about it, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.tables.table_files import (
    check_columns,
    check_local_target,
    local_columns,
    local_format,
    local_path,
    local_topics,
    seen_format,
)


def make(path: Path, content: object = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, separators=(",", ":")))
    return path


def test_a_delta_table(tmp_path: Path) -> None:
    columns = {"fields": [{"name": "offset"}, {"name": "value"}]}
    make(tmp_path / "_delta_log" / f"{0:020}.json", {"metaData": {"schemaString": json.dumps(columns)}})
    make(tmp_path / "_delta_log" / f"{1:020}.json", {"add": {}})
    assert local_format(str(tmp_path)) == "delta"
    assert local_columns(tmp_path, "delta") == ["offset", "value"]
    check_columns(str(tmp_path), ("value",))
    with pytest.raises(PipelineError, match="is no archive of a topic: it has no column key, x; so"):
        check_columns(str(tmp_path), ("key", "value", "x"), "; so")


def test_an_iceberg_table(tmp_path: Path) -> None:
    make(tmp_path / "metadata" / "version-hint.text", "2")
    old, new = ({"schema-id": number, "fields": [{"name": name}]} for number, name in ((0, "old"), (1, "new")))
    make(tmp_path / "metadata" / "v2.metadata.json", {"current-schema-id": 1, "schemas": [old, new]})
    assert local_format(f"file://{tmp_path}") == "iceberg"
    assert local_columns(tmp_path, "iceberg") == ["new"]


def test_a_directory_of_parquet_files(tmp_path: Path) -> None:
    folder = tmp_path / "topic=orders" / "date=2026-11-16"
    folder.mkdir(parents=True)
    with pytest.raises(PipelineError, match="holds no table"):
        local_format(str(tmp_path))
    make(tmp_path / "_tidelog" / "archive" / "x.parquet")
    assert seen_format(str(tmp_path)) == "", "files of a checkpoint are no data"
    parquet.write_table(pa.table({"key": [b"k"], "value": [b"v"]}), folder / "part-0.parquet")
    assert local_format(str(tmp_path)) == "parquet"
    assert local_columns(tmp_path, "parquet") == ["key", "value", "topic", "date"]
    assert local_topics(str(tmp_path)) == {"orders"}
    make(tmp_path / "_tidelog" / "table.json", {"columns": {"fields": [{"name": "noted"}]}})
    assert local_columns(tmp_path, "parquet") == ["noted"]


def test_a_first_commit_that_was_cut_off_is_no_table_yet(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    make(tmp_path / "part-0.parquet")
    assert seen_format(str(tmp_path)) == ""
    check_local_target(str(tmp_path), "delta")


@pytest.mark.parametrize("content", ["{", "[]", '{"metaData":{}}', '{"metaData":{"schemaString":"1"}}'])
def test_damaged_files_are_left_to_spark(tmp_path: Path, content: str) -> None:
    make(tmp_path / "_delta_log" / f"{0:020}.json", content)
    assert local_columns(tmp_path, "delta") is None


def test_what_is_somewhere_else_is_not_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert local_path("s3a://bucket/table") is None
    assert local_format("s3a://bucket/table") is None
    assert local_format("lake.orders") == "iceberg"
    check_local_target("s3a://bucket/table", "delta")
    # Where Hadoop is configured, a path may be one of its file system.
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert local_format("/no/such/place") is None
    assert local_path(f"file://{tmp_path}") == tmp_path


def test_targets(tmp_path: Path) -> None:
    make(tmp_path / "file")
    check_local_target(str(tmp_path / "new" / "table"), "delta")
    with pytest.raises(PipelineError, match="is a file, not a directory"):
        check_local_target(str(tmp_path / "file" / "table"), "delta")
    make(tmp_path / "table" / "part-0.parquet")
    check_local_target(str(tmp_path / "table"), "parquet")
    with pytest.raises(PipelineError, match="is a table in the format parquet, not delta; say parquet, or"):
        check_local_target(str(tmp_path / "table"), "delta")
