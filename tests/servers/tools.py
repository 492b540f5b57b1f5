"""Programs that are not Python packages. Where one is missing the test is skipped by its name; on CI it fails."""

from __future__ import annotations

import os
import shutil

import pytest
from tests.servers.apache_kafka import MissingTool, java, resolve_jars


def missing(what: str) -> None:
    """Skip, or fail where a continuous integration machine is supposed to have everything."""
    if os.environ.get("CI"):
        pytest.fail(f"missing on CI: {what}")
    pytest.skip(f"missing: {what}")


def require_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        missing(f"{name} (not on PATH)")
    assert found is not None
    return found


def require_kafka() -> None:
    """Java and Apache Kafka's jars."""
    try:
        java()
        resolve_jars()
    except MissingTool as error:
        missing(str(error))
