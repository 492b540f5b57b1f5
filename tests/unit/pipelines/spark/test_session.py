"""Choosing a master and what follows from it; no Spark is started."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.spark.session import (
    choose_master,
    default_settings,
    local_threads,
    package_archive,
    python_settings,
    table_settings,
    worker_python,
)


def test_the_master_is_chosen_by_argument_then_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDELOG_SPARK_MASTER", raising=False)
    assert choose_master() == "local[*]"
    monkeypatch.setenv("TIDELOG_SPARK_MASTER", "spark://127.0.0.1:7077")
    assert choose_master() == "spark://127.0.0.1:7077"
    assert choose_master("yarn") == "yarn"
    with pytest.raises(PipelineError, match="spark://HOST:PORT"):
        choose_master("mesos://somewhere")


def test_threads_of_a_local_master() -> None:
    assert [local_threads(master) for master in ("local", "local[3]", "local[4, 2]")] == [1, 3, 4]


def test_a_local_session_listens_on_the_loopback_only() -> None:
    assert default_settings("local[2]")["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in default_settings("yarn")


def test_table_formats_bring_their_extensions() -> None:
    assert table_settings(()) == {}
    assert table_settings(("delta", "iceberg"))["spark.sql.extensions"].count(",") == 1
    assert "spark.sql.catalog.spark_catalog" not in table_settings(("iceberg",))


def test_executors_get_the_package_and_their_python(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = python_settings("spark://127.0.0.1:7077", "environment.tar.gz")
    assert settings["spark.archives"] == "environment.tar.gz#environment"
    with zipfile.ZipFile(settings["spark.submit.pyFiles"]) as archive:
        names = archive.namelist()
    assert "tidelog/pipelines/delivery/lane_writer.py" in names
    assert not any(name.startswith("tidelog/storage") for name in names)
    # What a task imports must be all there: an executor has nothing else of this package.
    modules = ("delivery.lane_writer", "delivery.partitioners", "topics.letter_writer")
    code = "".join(f"import tidelog.pipelines.{module} as last\n" for module in modules) + "print(last.__file__)"
    alone = {**os.environ, "PYTHONPATH": settings["spark.submit.pyFiles"]}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=alone).stdout
    assert found.startswith(settings["spark.submit.pyFiles"])
    assert package_archive() == package_archive()
    assert python_settings("local[2]", None) == {}


def test_the_python_of_executors_is_chosen_by_argument_then_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert worker_python("yarn", None) == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert worker_python("yarn", None) == "/opt/python"
    assert worker_python("yarn", "/other/python") == "/other/python"
    assert worker_python("yarn", "environment.tar.gz") == "./environment/bin/python"
    assert worker_python("local[2]", "environment.tar.gz") == sys.executable


def test_importing_tidelog_does_not_import_spark() -> None:
    code = "import sys, tidelog, tidelog.pipelines; sys.exit(any(m.split('.')[0] == 'pyspark' for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
