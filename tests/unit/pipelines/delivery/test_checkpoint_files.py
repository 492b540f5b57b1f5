"""Small files beside a checkpoint on this machine; tests/pipelines has those that Hadoop reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tidelog.pipelines.delivery.checkpoint import Files, LocalFiles
from tidelog.pipelines.delivery.checkpoint import files_in as choose_files
from tidelog.pipelines.errors import PipelineError


def files_in(directory: Path | str) -> Files:
    """Of a session that has no JVM to ask."""
    found = choose_files(cast(Any, object()), str(directory))
    assert isinstance(found, LocalFiles)
    return found


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    assert files.read("state/a.json") is None
    for text in ('{"n": 1}', '{"n": 2}'):
        files.write("state/a.json", text)
        assert files.read("state/a.json") == text
    assert files.names("state") == ["a.json"]
    assert files_in(f"file://{tmp_path}/").read_json("state/a.json") == {"n": 2}


def test_a_file_is_moved_once_and_a_lost_one_is_named(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.write("staging/part", "rows")
    for _ in range(2):
        files.move("staging/part", "day=1/part")
    assert files.read("day=1/part") == "rows"
    files.delete("day=1/part")
    with pytest.raises(PipelineError, match="a file of a batch was removed"):
        files.move("staging/part", "day=1/part")


def test_files_and_folders_are_deleted_if_they_are_there(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.write("folder/deep/file", "")
    assert files.walk("folder") == ["deep/file"]
    files.delete("folder/deep/file")
    files.delete("folder")
    files.delete("folder")
    assert files.names("folder") == []


def test_damaged_state_is_named(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.write("a.json", "[1]")
    with pytest.raises(PipelineError, match=r"a\.json is damaged: not an object"):
        files.read_json("a.json")


def test_other_file_systems_need_a_jvm() -> None:
    with pytest.raises(PipelineError, match="local paths only"):
        files_in("s3a://bucket/x")
