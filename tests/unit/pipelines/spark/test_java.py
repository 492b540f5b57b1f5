"""The Java check: what is wrong, and what to do, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.pipelines.errors import MissingRequirement
from tidelog.pipelines.spark.java import check_version, find_java


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "21.0.1"', 21),
    ],
)
def test_versions(text: str, version: int) -> None:
    assert check_version(Path("java"), text) == version


@pytest.mark.parametrize("text", ['java version "1.8.0_402"', 'openjdk version "11.0.2"', "not java at all", ""])
def test_an_unfit_java_is_one_line(text: str) -> None:
    with pytest.raises(MissingRequirement, match="Java 17 or newer") as caught:
        check_version(Path("/opt/java"), text)
    assert "\n" not in str(caught.value)


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingRequirement, match="not on PATH"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingRequirement, match="has no bin/java"):
        find_java()


def test_an_old_java_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingRequirement, match="is Java 11"):
        find_java()
