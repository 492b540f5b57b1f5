"""Delta tables: a batch is committed with the sink's id and the batch's number, and Delta passes over it next time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.tables.added_columns import add_columns
from tidelog.pipelines.tables.upserts import Upsert, alone_in, last_per_key, merge, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_APP = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"


def append_batch(
    df: DataFrame, path: str, sink_id: str, batch: int, partition_by: Sequence[str], options: Mapping[str, str]
) -> bool:
    """Adds the rows of a batch; False if an earlier run had done so."""
    if _committed(df.sparkSession, path, sink_id) >= batch:
        return False
    writer = df.write.format("delta").mode("append").options(mergeSchema="true", **options)
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.option("txnAppId", sink_id).option("txnVersion", batch).save(path)
    return True


def upsert_batch(
    df: DataFrame, path: str, sink_id: str, batch: int, partition_by: Sequence[str], upsert: Upsert
) -> bool:
    """Applies a batch by key; False if an earlier run had done so."""
    spark = df.sparkSession
    if _committed(spark, path, sink_id) >= batch:
        return False
    changes = last_per_key(df, upsert)
    table = f"delta.`{path}`"
    with alone_in(spark):
        _make(stored(changes), path, partition_by)
        add_columns(stored(changes), table)
        with _as_transaction(spark, sink_id, batch):
            merge(changes, table, upsert)
    return True


def _committed(spark: SparkSession, path: str, sink_id: str) -> int:
    """The last batch of this sink in the table's log, -1 if there is none or no JVM to ask (Spark Connect).

    Only saves the work of a batch that Delta itself would pass over.
    """
    if not hasattr(spark, "_jsparkSession"):
        return -1
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    snapshot = log.unsafeVolatileSnapshot()
    found = snapshot.transactions().get(sink_id) if snapshot.version() >= 0 else None
    return int(found.get()) if found is not None and found.isDefined() else -1


def _make(df: DataFrame, path: str, partition_by: Sequence[str]) -> None:
    """An empty table with the frame's columns, if there is none."""
    writer = df.limit(0).write.format("delta").mode("ignore")
    (writer.partitionBy(*partition_by) if partition_by else writer).save(path)


@contextmanager
def _as_transaction(spark: SparkSession, sink_id: str, batch: int) -> Iterator[None]:
    spark.conf.set(_APP, sink_id)
    spark.conf.set(_VERSION, str(batch))
    try:
        yield
    finally:
        spark.conf.unset(_APP)
        spark.conf.unset(_VERSION)
