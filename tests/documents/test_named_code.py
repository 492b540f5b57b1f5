"""The files and functions that documents name are there: what was renamed is renamed in the documents too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("docs/architecture.md", "CONTRIBUTING.md")

_FILE = re.compile(r"`(?P<path>[\w./<>]+\.py)`")
_NAME_IN_FILE = re.compile(r"`(?P<path>[\w./]+\.py)`(?:,\s+| \()`(?P<name>\w+(?:\.(?!py`)\w+)?)`")


def python_files() -> list[Path]:
    folders = (ROOT / name for name in ("src", "tests", "tools", "benchmarks"))
    return [file for folder in folders for file in folder.rglob("*.py")]


def files_named(path: str, files: list[Path]) -> list[Path]:
    return [file for file in files if f"/{file.relative_to(ROOT).as_posix()}".endswith(f"/{path}")]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_is_there(document: str) -> None:
    files = python_files()
    named = {found["path"] for found in _FILE.finditer((ROOT / document).read_text())}
    assert len(named) > 5
    missing = [path for path in sorted(named) if "<" not in path and not files_named(path, files)]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_function_is_in_its_file(document: str) -> None:
    files = python_files()
    missing = []
    for found in _NAME_IN_FILE.finditer((ROOT / document).read_text()):
        texts = [file.read_text() for file in files_named(found["path"], files)]
        for name in found["name"].split("."):
            defines = re.compile(rf"(?:\b(?:def|class) {name}\b|^\s*{name}\b.*=|^{name}: )", re.MULTILINE)
            if not any(defines.search(text) for text in texts):
                missing.append(f"{found['path']}: {found['name']}")
    assert not missing
