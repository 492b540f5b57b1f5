"""Pins and the jar cache, without a network."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tidelog.pipelines.errors import MissingRequirement, PipelineError
from tidelog.pipelines.spark import jars
from tidelog.pipelines.spark.jars import Jar, extra_jars, jar_paths, pinned_jars


def test_jars_in_the_cache_need_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_resolve", lambda *_: pytest.fail("the network was asked"))
    for jar in pinned_jars(("delta",)):
        (tmp_path / jar.file_name).touch()
    assert [path.name for path in jar_paths(pinned_jars(("delta",)), tmp_path)] == [
        jar.file_name for jar in pinned_jars(("delta",))
    ]


def test_every_pin_has_a_checksum() -> None:
    assert all(jar.sha256 and len(jar.sha256) == 64 for jar in pinned_jars(("delta", "iceberg")))


def test_a_jar_with_another_checksum_does_not_enter_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(wanted: list[Jar], work: Path) -> list[Path]:
        (work / "fetched.jar").write_bytes(b"something else")
        return [work / "fetched.jar"]

    monkeypatch.setattr(jars, "_resolve", resolve)
    with pytest.raises(MissingRequirement, match="not used"):
        jar_paths([Jar("a:b:1", hashlib.sha256(b"right").hexdigest())], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_names_that_are_none() -> None:
    with pytest.raises(PipelineError, match="delta, iceberg"):
        pinned_jars(("hudi",))
    with pytest.raises(PipelineError, match="group:artifact:version"):
        extra_jars(["just-a-name"])
