"""The session of a built-in job: with the jars that its table needs, ended with the job."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.cli.activity import Activity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def job_session(name: str, path: str, master: str | None, activity: Activity) -> Iterator[SparkSession]:
    """A session for a table; what format it has is seen from its files, or all are loaded when they are far away."""
    from tidelog.pipelines.spark.session import session
    from tidelog.pipelines.tables.table_files import local_format

    found = local_format(path)
    tables = ("delta", "iceberg") if found is None else (found,) if found != "parquet" else ()
    activity("starting Spark")
    spark = session(master, app=f"tidelog {name}", tables=tables)
    activity.count_tasks(spark)
    try:
        yield spark
    finally:
        spark.stop()
