"""Rows by key into Delta and Iceberg tables: the last row of a key wins, a tombstone deletes."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DELETE = "__tidelog_delete"
_RANK = "__tidelog_rank"
_CHANGES = "__tidelog_changes_"
_LOCKS = tuple(threading.Lock() for _ in range(64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """How rows are matched, which of a batch's rows of one key is the last, and which of them delete."""

    key: tuple[str, ...]
    order_by: tuple[str, ...]
    delete_when: str | None
    exclude: tuple[str, ...]


def last_per_key(df: DataFrame, upsert: Upsert) -> DataFrame:
    """One row per key, with a column that says whether it deletes."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    marked = df.withColumn(_DELETE, F.coalesce(F.expr(upsert.delete_when or "false"), F.lit(False)))
    if upsert.order_by:
        latest = Window.partitionBy(*upsert.key).orderBy(*(F.col(name).desc() for name in upsert.order_by))
        marked = marked.withColumn(_RANK, F.row_number().over(latest)).where(f"{_RANK} = 1").drop(_RANK)
    else:
        marked = marked.dropDuplicates(list(upsert.key))
    return marked.drop(*upsert.exclude)


def merge(df: DataFrame, table: str, upsert: Upsert) -> None:
    """Applies one row per key (`last_per_key`) to a table by its SQL name."""
    spark = df.sparkSession
    columns = [name for name in df.columns if name != _DELETE]
    matched = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in upsert.key)
    assignments = ", ".join(f"t.`{name}` = s.`{name}`" for name in columns)
    names = ", ".join(f"`{name}`" for name in columns)
    values = ", ".join(f"s.`{name}`" for name in columns)
    # A merge reads twice and must see the same rows, and side effects upstream must not happen twice.
    changes = df.persist()
    view = f"{_CHANGES}{uuid.uuid4().hex}"
    changes.createOrReplaceTempView(view)
    try:
        spark.sql(
            f"MERGE INTO {table} AS t USING {view} AS s ON {matched}"
            f" WHEN MATCHED AND s.`{_DELETE}` THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {assignments}"
            f" WHEN NOT MATCHED AND NOT s.`{_DELETE}` THEN INSERT ({names}) VALUES ({values})"
        )
    finally:
        spark.catalog.dropTempView(view)
        changes.unpersist()


def alone_in(spark: SparkSession) -> threading.Lock:
    """Held by an upsert while settings of a session name its sink and batch: two threads with one session, and every
    write of both would carry the names of the last one. Streams have sessions of their own and rarely meet here."""
    session: Any = spark
    name = session._jsparkSession.sessionUUID() if hasattr(session, "_jsparkSession") else session.session_id
    return _LOCKS[hash(name) % len(_LOCKS)]


def stored(df: DataFrame) -> DataFrame:
    """The columns of `last_per_key` that the table has."""
    return df.drop(_DELETE)


def check_key(columns: Sequence[str], key: Sequence[str]) -> None:
    absent = [name for name in key if name not in columns]
    if not key or absent:
        wrong = f"no column {', '.join(absent)}" if absent else "no key is named"
        raise PipelineError(f"mode='upsert' needs key=: {wrong}; the columns are {', '.join(columns)}")
