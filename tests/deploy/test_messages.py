"""What docs/operations.md says a node says when it will not start is what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIDELOG = str(Path(sys.executable).with_name("tidelog"))
_ROW = re.compile(r"^\| `(?P<message>[^`]+)`(?: \.\.\.)?(?: \([^|]*\))? \| ", re.MULTILINE)
_NUMBER = re.compile(r"\d[\d.]*(?::\d+)?")


def documented() -> list[str]:
    text = (ROOT / "docs" / "operations.md").read_text()
    section = text.partition("### A node will not start")[2].partition("\n### ")[0]
    return [without_numbers(found["message"]) for found in _ROW.finditer(section)]


def without_numbers(text: str) -> str:
    return _NUMBER.sub("N", text)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[int]:
    """A node with its data in ./data/1; its port."""
    command = [TIDELOG, "serve", "--listen", "127.0.0.1:0", "--data", "./data/1"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as node:
        assert node.stdout is not None
        found = re.search(r"ready on 127\.0\.0\.1:(\d+)", node.stdout.readline())
        assert found is not None
        yield int(found[1])
        node.terminate()
        assert node.wait(20) == 0


def refused(directory: Path, *arguments: str, code: int = 1) -> str:
    command = [TIDELOG, "serve", *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == code, done.stderr
    return without_numbers(done.stderr.strip().splitlines()[-1].removeprefix("tidelog: "))


def test_a_directory_that_is_in_use(running: int, tmp_path: Path) -> None:
    assert refused(tmp_path, "--listen", "127.0.0.1:0", "--data", "./data/1") in documented()


def test_a_port_that_is_in_use(running: int, tmp_path: Path) -> None:
    assert refused(tmp_path, "--listen", f"127.0.0.1:{running}", "--data", "./data/2") in documented()


def test_the_directory_of_another_node(tmp_path: Path) -> None:
    (tmp_path / "data" / "1").mkdir(parents=True)
    identity = "version=1\nnode.id=1\ncluster.id=TbTAp0xjptrfOPs0vOSh2Q\n"
    (tmp_path / "data" / "1" / "meta.properties").write_text(identity)
    said = refused(tmp_path, "--listen", "127.0.0.1:0", "--data", "./data/1", "--node-id", "7")
    assert said in documented()


def test_a_directory_that_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "data" / "1").mkdir(parents=True)
    assert refused(tmp_path, "--listen", "127.0.0.1:0", "--data", "./data") in documented()


def test_a_setting_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "tidelog.yaml").write_text("broker:\n  node.id: 1\n  lisetners: 127.0.0.1:0\n")
    said = refused(tmp_path, "--config", "tidelog.yaml")
    assert any(said.startswith(message) for message in documented())
