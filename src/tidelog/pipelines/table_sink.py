"""`write_table()` and `read_table()`: Parquet, Delta and Iceberg, each with an idempotent commit per batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWrite:
    """What a batch write did: `committed` is False where an earlier run of the same write had done it."""

    path: str
    committed: bool


def write_table(
    df: DataFrame,
    path: str,
    *,
    format: str = "parquet",  # noqa: A002
    mode: str = "append",
    key: str | Sequence[str] | None = None,
    delete_when: str | None = None,
    order_by: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    checkpoint: str | None = None,
    trigger: str | None = None,
    output_mode: str = "append",
    name: str | None = None,
    options: Mapping[str, str] | None = None,
) -> TableWrite | StreamingQuery:
    """Write rows into a table, which is made when it is not there; a batch returns what was done, a stream the query.

    `path` is a directory (any file system Spark reaches) or, for Iceberg, also a `catalog.schema.table`.
    mode="append" adds rows; "upsert" (Delta, Iceberg) keeps the last row per `key`, in the order of `order_by`
    (default: `offset` if there is one), and deletes the row where `delete_when` holds (SQL; default: `value IS NULL`
    if there is a column `value`). Columns in `exclude` guide the write and are not stored. Columns the table lacks
    are added to it. Every stream needs a `checkpoint`; a batch with one can be run again after a crash without
    writing twice. `trigger` and `output_mode` are as for `write_topic`, without continuous and complete; update needs
    mode="upsert".
    """
    raise NotImplementedError


def read_table(
    spark: SparkSession,
    path: str,
    *,
    format: str = "parquet",  # noqa: A002
    stream: bool = False,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of a table that `write_table` wrote; columns added later are null in older rows."""
    raise NotImplementedError
