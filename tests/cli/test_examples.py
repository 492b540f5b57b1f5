"""`tidelog examples` against a real broker; tests/documents runs every example."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.cli.command import Command

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_list_names_every_pipeline_and_fits_a_terminal(tidelog: Command) -> None:
    listed = tidelog("examples", "list", "--json").json
    assert [example["name"] for example in listed] == sorted(path.stem for path in EXAMPLES.glob("*.yaml"))
    lines = tidelog("examples", "list").out.splitlines()
    assert len(lines) == len(listed) + 1
    assert max(map(len, lines)) < 80


def test_load_leaves_what_is_there_as_it_is(tidelog: Command, tmp_path: Path) -> None:
    first = tidelog("examples", "load", "sessions", "--to", str(tmp_path)).out.splitlines()
    pipeline = tmp_path / "sessions" / "sessions.yaml"
    assert first == ["topic clicks: 8 records", f"tidelog pipeline run {pipeline}"]
    assert pipeline.read_bytes() == (EXAMPLES / "sessions.yaml").read_bytes()
    assert tidelog("pipeline", "validate", str(pipeline)).code == 0

    pipeline.write_text(f"{pipeline.read_text()}# mine\n")
    second = tidelog("examples", "load", "sessions", "--to", str(tmp_path)).out.splitlines()
    assert second == [
        f"{pipeline} was edited and is left as it is",
        "topic clicks exists already and is left as it is; for the records of the example: "
        "tidelog topics delete clicks, then load again",
        f"tidelog pipeline run {pipeline}",
    ]
    assert pipeline.read_text().endswith("# mine\n")
    [described] = tidelog("topics", "describe", "clicks", "--json").json
    assert sum(partition["offsets"] for partition in described["partitions"]) == 8
    tidelog("topics", "delete", "clicks", "--yes")


def test_what_is_wrong_is_told_before_anything_is_written(tidelog: Command, tmp_path: Path) -> None:
    target = tmp_path / "examples"
    done = tidelog("examples", "load", "window", "--to", str(target), fails=True)
    assert "no example window; there are deduplicate, " in done.err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = Command(f"127.0.0.1:{taken.getsockname()[1]}")
        assert "no broker answers" in nowhere("examples", "load", "windows", "--to", str(target), fails=True).err
    assert not target.exists()


@pytest.mark.parametrize("name", ["windows", "stream_table_join"])
def test_a_file_in_the_way(tidelog: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    topics = tidelog("topics", "list").out
    done = tidelog("examples", "load", name, "--to", str(tmp_path), fails=True)
    assert f"the example cannot be copied to {tmp_path / name}: " in done.err
    assert tidelog("topics", "list").out == topics
