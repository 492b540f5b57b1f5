"""Small files beside a checkpoint, through Hadoop's file systems: they are the same files as those of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog.pipelines.delivery.checkpoint import Files, HadoopFiles, LocalFiles, Progress, files_in
from tidelog.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_files_through_hadoop_are_those_of_this_machine(spark: SparkSession, tmp_path: Path) -> None:
    plain, hadoop = LocalFiles(str(tmp_path)), HadoopFiles(spark, f"file://{tmp_path}/")
    for place in (str(tmp_path), f"file://{tmp_path}"):
        assert isinstance(files_in(spark, place), LocalFiles), "a process would be started for every file"
    pairs: list[tuple[Files, Files]] = [(plain, hadoop), (hadoop, plain)]
    for number, (writer, reader) in enumerate(pairs):
        folder = f"offsets-{number}"
        assert (reader.read(f"{folder}/1"), reader.names(folder)) == (None, [])
        for text in ("größer", '{"n": 2}'):
            writer.write(f"{folder}/1", text)
            assert reader.read(f"{folder}/1") == text
        assert reader.read_json(f"{folder}/1") == {"n": 2}
        assert [name for name in reader.names(folder) if not name.startswith(".")] == ["1"]
        for _ in range(2):
            writer.move(f"{folder}/1", f"{folder}/deep/2")
        assert [name for name in reader.walk(folder) if "/." not in f"/{name}"] == ["deep/2"]
        writer.delete(f"{folder}/deep/2")
        with pytest.raises(PipelineError, match="a file of a batch was removed"):
            writer.move(f"{folder}/1", f"{folder}/deep/2")
        writer.delete(folder)
        writer.delete(folder)
        assert reader.names(folder) == []
    plain.write("offsets/7", 'v1\n{}\n{"t": {"0": 5}}')
    plain.write("commits/7", "")
    assert hadoop.progress() == plain.progress() == Progress(planned=7, finished=7)
    assert hadoop.positions() == plain.positions() == {"t": {0: 5}}
