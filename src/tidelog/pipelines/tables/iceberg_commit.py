"""Iceberg tables: a batch's snapshot carries the sink's id and the batch's number, and is looked for before a write."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.tables.added_columns import add_columns
from tidelog.pipelines.tables.upserts import Upsert, alone_in, last_per_key, merge, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SINK_PROPERTY = "tidelog.sink-id"
BATCH_PROPERTY = "tidelog.batch-id"
_CONF = "spark.sql.iceberg.snapshot-property."


def table_name(spark: SparkSession, path: str) -> str:
    """The SQL name of a table: given as such, or a directory, whose parent becomes the warehouse of a catalog."""
    if "/" not in path:
        return path
    parent, _, name = path.rstrip("/").rpartition("/")
    if "`" in name or not name:
        raise PipelineError(f"{path!r} cannot be an Iceberg table's directory")
    catalog = f"tidelog_{hashlib.sha256(parent.encode()).hexdigest()[:12]}"
    spark.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{catalog}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", parent or "/")
    spark.conf.set(f"spark.sql.catalog.{catalog}.cache-enabled", "false")
    return f"{catalog}.`{name}`"


def append_batch(
    df: DataFrame, path: str, sink_id: str, batch: int, partition_by: Sequence[str], options: Mapping[str, str]
) -> bool:
    """Adds the rows of a batch; False if an earlier run had done so."""
    spark = df.sparkSession
    table = table_name(spark, path)
    _make(spark, df, table, partition_by)
    if _committed(spark, table, sink_id) >= batch:
        return False
    add_columns(df, table)
    properties = {f"snapshot-property.{SINK_PROPERTY}": sink_id, f"snapshot-property.{BATCH_PROPERTY}": str(batch)}
    writer = df.writeTo(table).options(**{"fanout-enabled": "true", **options, **properties})
    writer.append()
    return True


def upsert_batch(
    df: DataFrame, path: str, sink_id: str, batch: int, partition_by: Sequence[str], upsert: Upsert
) -> bool:
    """Applies a batch by key; False if an earlier run had done so."""
    spark = df.sparkSession
    table = table_name(spark, path)
    changes = last_per_key(df, upsert)
    with alone_in(spark):
        _make(spark, stored(changes), table, partition_by)
        if _committed(spark, table, sink_id) >= batch:
            return False
        add_columns(stored(changes), table)
        with _as_snapshot(spark, sink_id, batch):
            merge(changes, table, upsert)
    return True


def _make(spark: SparkSession, df: DataFrame, table: str, partition_by: Sequence[str]) -> None:
    if spark.catalog.tableExists(table):
        return
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in df.schema.fields)
    partitioning = f" PARTITIONED BY ({', '.join(f'`{name}`' for name in partition_by)})" if partition_by else ""
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg{partitioning}")


def _committed(spark: SparkSession, table: str, sink_id: str) -> int:
    """The last batch of this sink that a snapshot of the table carries; -1 if none does."""
    found = spark.sql(
        f"SELECT max(CAST(summary['{BATCH_PROPERTY}'] AS BIGINT)) AS last FROM {table}.snapshots"
        f" WHERE summary['{SINK_PROPERTY}'] = '{sink_id}'"
    ).collect()[0]["last"]
    return -1 if found is None else int(found)


@contextmanager
def _as_snapshot(spark: SparkSession, sink_id: str, batch: int) -> Iterator[None]:
    spark.conf.set(f"{_CONF}{SINK_PROPERTY}", sink_id)
    spark.conf.set(f"{_CONF}{BATCH_PROPERTY}", str(batch))
    try:
        yield
    finally:
        spark.conf.unset(f"{_CONF}{SINK_PROPERTY}")
        spark.conf.unset(f"{_CONF}{BATCH_PROPERTY}")
