"""A running session is found again, one that lacks jars is named, and tasks run the Python that was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.driver import SHORT_LIVED

from tidelog.pipelines import PipelineError, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_second_call_gives_the_running_session(spark: SparkSession) -> None:
    assert session("local[2]", tables=("delta",)) is spark


def test_a_running_session_without_the_jars_is_named(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"other-1\.0\.jar is running in this process; stop it"):
        session(packages=("org.example:other:1.0",))


TASK = """\
import os, sys
from pyspark.sql import functions as F
from tidelog.pipelines import session
spark = session("local[1]", python=sys.argv[1], config={"spark.driver.memory": "512m"})
who = F.udf(lambda _: os.environ.get("TIDELOG_TEST_WORKER", "the driver's"), "string")
print(spark.range(1).select(who("id")).collect()[0][0], os.environ["PYSPARK_PYTHON"])
"""


def test_tasks_run_the_python_that_was_asked_for(requirements: None, tmp_path: Path) -> None:
    """And not the one of the driver, nor that of the environment, which is left as it was."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexport TIDELOG_TEST_WORKER=ours\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    variables = {**os.environ, "PYSPARK_PYTHON": "/nowhere/python", "SPARK_SUBMIT_OPTS": SHORT_LIVED}
    command = [sys.executable, "-c", TASK, str(wrapper)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables, timeout=300)
    assert done.stdout == "ours /nowhere/python\n", done.stderr[-2000:]
