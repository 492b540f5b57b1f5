"""The files by which other commands see and end a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.run.state_files import StateFiles


def test_a_run_is_seen_and_stopped_and_cannot_be_doubled(tmp_path: Path) -> None:
    files, other = StateFiles(str(tmp_path / "checkpoint")), StateFiles(str(tmp_path / "checkpoint"))
    assert not other.is_running()
    assert other.read_run() is None
    with files.hold():
        files.write_run({"queries": []})
        assert other.is_running()
        assert (other.read_run() or {})["pid"] == os.getpid()
        with pytest.raises(PipelineError, match=f"is running already \\(process {os.getpid()}\\)"), other.hold():
            pass
        other.ask_to_stop()
        assert files.is_asked_to_stop()
    assert not other.is_running()
    with files.hold():
        assert not files.is_asked_to_stop(), "an old wish ended a new run"


def test_sinks_that_are_gone_keep_their_fingerprint(tmp_path: Path) -> None:
    files = StateFiles(str(tmp_path))
    files.write_fingerprint({"version": 1, "sinks": {"a": 1, "b": 2}})
    files.write_fingerprint({"version": 1, "sinks": {"b": 3}})
    assert files.read_fingerprint() == {"version": 1, "sinks": {"a": 1, "b": 3}}


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "pipeline.json").write_text("{")
    with pytest.raises(PipelineError, match=r"pipeline\.json cannot be read"):
        StateFiles(str(tmp_path)).read_fingerprint()
    (tmp_path / "pipeline.json").write_text("[]")
    with pytest.raises(PipelineError, match=r"pipeline\.json is not what a pipeline wrote there"):
        StateFiles(str(tmp_path)).read_fingerprint()


def test_a_remote_checkpoint_has_its_files_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    files = StateFiles("s3a://bucket/checkpoint")
    with files.hold():
        files.write_run({})
    assert files.directory.is_relative_to(tmp_path)
    assert StateFiles("s3a://bucket/checkpoint").read_run() is not None
    assert StateFiles("s3a://bucket/other").read_run() is None


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="cannot be used"), StateFiles(str(tmp_path / "file" / "x")).hold():
        pass


def test_a_first_run_that_was_refused_leaves_nothing(tmp_path: Path) -> None:
    table = tmp_path / "table"
    files = StateFiles(str(table / "_tidelog" / "archive"))
    with files.hold():
        assert files.is_running()
    assert list(tmp_path.iterdir()) == []
    with files.hold():
        files.write_run({})
    with files.hold():
        pass
    assert files.read_run() is not None, "what an earlier run left is part of a checkpoint"


def test_what_others_put_there_meanwhile_stays(tmp_path: Path) -> None:
    files = StateFiles(str(tmp_path / "table" / "checkpoint"))
    with files.hold():
        (tmp_path / "table" / "theirs").touch()
    assert (tmp_path / "table" / "theirs").exists()
    assert not files.directory.exists()
