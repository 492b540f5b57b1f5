"""A session that is running is found again, and one that lacks jars is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.pipelines import PipelineError, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_second_call_gives_the_running_session(spark: SparkSession) -> None:
    assert session("local[2]", tables=("delta",)) is spark


def test_a_running_session_without_the_jars_is_named(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match=r"other-1\.0\.jar is running in this process; stop it"):
        session(packages=("org.example:other:1.0",))
