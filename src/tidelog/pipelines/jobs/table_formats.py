"""Which format a table in a directory has, seen from its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MARKS = {"delta": "_delta_log", "iceberg": "metadata/version-hint.text"}


def local_format(path: str) -> str | None:
    """As `table_format`, for a directory of this machine and without Spark; None when it is somewhere else."""
    from pathlib import Path

    if "://" in path:
        return None
    if "/" not in path and not Path(path).exists():
        return "iceberg"
    for name, mark in _MARKS.items():
        if (Path(path) / mark).exists():
            return name
    if not Path(path).is_dir():
        raise PipelineError(f"{path} does not exist; `tidelog archive TOPIC --to {path}` makes such a table")
    return "parquet"


def table_format(spark: SparkSession, path: str) -> str:
    """parquet, delta or iceberg; a name without a slash is an Iceberg table of a catalog."""
    found = local_format(path)
    if found is not None:
        return found
    session: Any = spark
    hadoop = session._jvm.org.apache.hadoop.fs.Path
    configuration = session._jsc.hadoopConfiguration()
    for name, mark in _MARKS.items():
        place = hadoop(f"{path.rstrip('/')}/{mark}")
        if place.getFileSystem(configuration).exists(place):
            return name
    return "parquet"
