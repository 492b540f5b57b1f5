"""`write_table()` and `read_table()`: Parquet, Delta and Iceberg, each with an idempotent commit per batch.

The checkpoint names the sink; a table remembers the last batch of each sink in the way its format offers, so that a
batch which runs again after a crash is found there and not written twice.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.delivery.batch_errors import searchable
from tidelog.pipelines.delivery.checkpoint import files_in
from tidelog.pipelines.delivery.triggers import Trigger, as_trigger
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.formats.column_types import check_types
from tidelog.pipelines.spark.spark_errors import explain_analysis
from tidelog.pipelines.tables import delta_commit, iceberg_commit, parquet_commit
from tidelog.pipelines.tables.table_files import FORMATS, require_table, require_target
from tidelog.pipelines.tables.upserts import Upsert, check_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.types import StructType

STATE_FILE = "tidelog/table-sink.json"
_APPENDS = {
    "parquet": parquet_commit.append_batch,
    "delta": delta_commit.append_batch,
    "iceberg": iceberg_commit.append_batch,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWrite:
    """What a batch write did: `committed` is False where an earlier run of the same write had done it."""

    path: str
    committed: bool


@dataclass(frozen=True, kw_only=True)
class TableBatch:
    """Writes one batch once; the function that `foreachBatch` calls."""

    path: str
    format: str
    sink_id: str
    partition_by: tuple[str, ...]
    upsert: Upsert | None
    exclude: tuple[str, ...]
    options: Mapping[str, str]

    def __call__(self, df: DataFrame, batch: int) -> bool:
        place = (self.path, self.sink_id, batch, self.partition_by)
        if self.upsert is not None:
            apply = delta_commit.upsert_batch if self.format == "delta" else iceberg_commit.upsert_batch
            return apply(df, *place, self.upsert)
        return _APPENDS[self.format](df.drop(*self.exclude), *place, self.options)


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
    trigger: str | Trigger | None = None,
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
    _check_arguments(format, mode, output_mode, df, partition_by)
    chosen = as_trigger(trigger)
    if chosen is not None and chosen.kind == "continuous":
        raise PipelineError("a continuous trigger has no batches to commit: use an interval")
    if df.isStreaming and checkpoint is None:
        raise PipelineError(f"a stream into {path} needs checkpoint=, a directory that outlives the query")
    upsert = _upsert(df, key, order_by, delete_when, exclude) if mode == "upsert" else None
    require_target(df.sparkSession, path, format)
    columns = _columns(df.sparkSession, path, format)
    if columns is not None:
        check_types(path, columns, df.drop(*exclude).schema, widens=format != "parquet")
    write = TableBatch(
        path=path,
        format=format,
        sink_id=_sink_id(df, path, checkpoint),
        partition_by=tuple(partition_by),
        upsert=upsert,
        exclude=tuple(exclude),
        options=dict(options or {}),
    )
    if not df.isStreaming:
        return TableWrite(path=path, committed=write(df, 0))

    def write_batch(batch_df: DataFrame, batch: int) -> None:
        write(batch_df, batch)

    writer: Any = df.writeStream.foreachBatch(searchable(write_batch)).outputMode(output_mode)
    writer = writer.option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    return (writer if chosen is None else writer.trigger(**chosen.spark_arguments())).start()


def write_files(
    df: DataFrame,
    path: str,
    *,
    format: str,  # noqa: A002
    partition_by: Sequence[str],
    checkpoint: str,
    options: Mapping[str, str],
) -> bool:
    """Adds the rows of a frame that is no stream to a directory of files, once for each checkpoint."""
    absent = [column for column in partition_by if column not in df.columns]
    if absent:
        raise PipelineError(f"partition_by: no column {', '.join(absent)} in {', '.join(df.columns)}")
    sink_id = _sink_id(df, path, checkpoint)
    return parquet_commit.append_batch(df, path, sink_id, 0, partition_by, options, file_format=format)


def read_table(
    spark: SparkSession,
    path: str,
    *,
    format: str = "parquet",  # noqa: A002
    stream: bool = False,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of a table that `write_table` wrote; columns added later are null in older rows.

    PipelineError when there is no table, or one of another format.
    """
    from pyspark.errors import AnalysisException

    _check_format(format)
    try:
        require_table(spark, path, format)
        return _read(spark, path, format, stream, dict(options or {}))
    except AnalysisException as error:
        raise PipelineError(f"{path} cannot be read as a table: {explain_analysis(error)}") from error


def _read(
    spark: SparkSession,
    path: str,
    format: str,  # noqa: A002
    stream: bool,
    given: dict[str, str],
) -> DataFrame:
    if format == "parquet":
        return parquet_commit.read(spark, path, given, stream)
    reader = (spark.readStream if stream else spark.read).options(**given)
    if format == "iceberg":
        return reader.format("iceberg").table(iceberg_commit.table_name(spark, path))
    return reader.format("delta").load(path)


def _columns(spark: SparkSession, path: str, name: str) -> StructType | None:
    """The columns of a table; None if there is none yet."""
    if name == "parquet":
        return parquet_commit.known_columns(spark, path)
    if name == "delta":
        # A run that ended during the first commit leaves a log without a version, which is no table yet.
        versions = [file for file in files_in(spark, path).names("_delta_log") if file[:20].isdigit()]
        return read_table(spark, path, format=name).schema if versions else None
    table = iceberg_commit.table_name(spark, path)
    return spark.table(table).schema if spark.catalog.tableExists(table) else None


def _check_format(name: str) -> None:
    if name not in FORMATS:
        raise PipelineError(f"format={name!r}: use {', '.join(FORMATS)}")


def _check_arguments(name: str, mode: str, output_mode: str, df: DataFrame, partition_by: Sequence[str]) -> None:
    _check_format(name)
    if mode not in ("append", "upsert"):
        raise PipelineError(f"mode={mode!r}: use 'append' or 'upsert'")
    if mode == "upsert" and name == "parquet":
        raise PipelineError("mode='upsert' needs format='delta' or 'iceberg': a Parquet directory cannot change rows")
    if output_mode not in ("append", "update") or (output_mode == "update" and mode != "upsert"):
        raise PipelineError(f"output_mode={output_mode!r} with mode={mode!r}: rows that change need mode='upsert'")
    absent = [column for column in partition_by if column not in df.columns]
    if absent:
        raise PipelineError(f"partition_by: no column {', '.join(absent)} in {', '.join(df.columns)}")


def _upsert(
    df: DataFrame,
    key: str | Sequence[str] | None,
    order_by: Sequence[str] | None,
    delete_when: str | None,
    exclude: Sequence[str],
) -> Upsert:
    names = (key,) if isinstance(key, str) else tuple(key or ())
    check_key(df.columns, names)
    default_order = ("offset",) if "offset" in df.columns else ()
    if delete_when is None and "value" in df.columns:
        delete_when = "value IS NULL"
    return Upsert(
        key=names,
        order_by=default_order if order_by is None else tuple(order_by),
        delete_when=delete_when,
        exclude=tuple(exclude),
    )


def _sink_id(df: DataFrame, path: str, checkpoint: str | None) -> str:
    """Stays with the checkpoint; a batch without one is a sink of its own."""
    if checkpoint is None:
        return f"{parquet_commit.SINK_PREFIX}{uuid.uuid4()}"
    files = files_in(df.sparkSession, checkpoint)
    content = files.read_json(STATE_FILE)
    if content is None:
        if files.progress().planned >= 0:
            raise PipelineError(f"the checkpoint {checkpoint} belongs to a query with another sink: use another one")
        content = {"sink_id": f"{parquet_commit.SINK_PREFIX}{uuid.uuid4()}", "path": path}
        files.write(STATE_FILE, json.dumps(content))
    if content.get("path") != path:
        raise PipelineError(
            f"the checkpoint {checkpoint} belongs to a query that writes {content.get('path')}, not {path}:"
            " use another one"
        )
    return str(content["sink_id"])
