"""An idempotent commit for directories of Parquet (or other) files, for any reader: no log that readers must know.

Batch N of a sink is written to a staging folder, then a manifest lists its files with their final names, then the
files are renamed into place, then the sink's progress says N is done. A run that ends before the manifest leaves
nothing that a reader sees (names that begin with `_` are ignored by them); one that ends after it is finished by the
next, from the manifest alone. Readers see the files of a batch appear one by one, each whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.pipelines.delivery.checkpoint import Files, files_in
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.tables.table_files import TABLE_FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

STATE = "_tidelog"
SINK_PREFIX = "tidelog-"
"""Ids of sinks begin with it; each has a folder of its own in STATE."""


def append_batch(
    df: DataFrame,
    path: str,
    sink_id: str,
    batch: int,
    partition_by: Sequence[str],
    options: Mapping[str, str],
    *,
    file_format: str = "parquet",
) -> bool:
    """Adds the rows of a batch; False if an earlier run had done so."""
    spark = df.sparkSession
    files = files_in(spark, path)
    _pin_shape(files, path, partition_by, df.schema)
    home = f"{STATE}/{sink_id}"
    progress = files.read_json(f"{home}/progress.json")
    if progress is not None and progress["done"] >= batch:
        return False
    manifest = files.read_json(f"{home}/manifest.json")
    finished_earlier = manifest is not None and manifest["batch"] == batch
    if not finished_earlier:
        staging = f"{home}/staging"
        files.delete(staging)
        writer = df.write.options(**options).mode("overwrite")
        if partition_by:
            writer = writer.partitionBy(*partition_by)
        writer.format(file_format).save(f"{path.rstrip('/')}/{staging}")
        manifest = {"batch": batch, "moves": _moves(files, staging, f"{sink_id[-12:]}-{batch:012d}")}
        files.write(f"{home}/manifest.json", json.dumps(manifest))
    assert manifest is not None
    for source, target in manifest["moves"]:
        files.move(source, target)
    files.write(f"{home}/progress.json", json.dumps({"done": batch}))
    files.delete(f"{home}/staging")
    return not finished_earlier


def files_in_doubt(files: Files) -> set[str]:
    """Files of batches that are not done: a batch that is run again looks for its files under these names.

    Asked after a directory was listed: a batch that was done by then has all its files in the list, or none.
    """
    found: set[str] = set()
    for name in files.names(STATE):
        manifest = files.read_json(f"{STATE}/{name}/manifest.json") if name.startswith(SINK_PREFIX) else None
        if manifest is None:
            continue
        progress = files.read_json(f"{STATE}/{name}/progress.json")
        if progress is None or progress["done"] < manifest["batch"]:
            found.update(target for _, target in manifest["moves"])
    return found


def known_columns(spark: SparkSession, path: str) -> StructType | None:
    """The columns that writers have put into a directory so far; None where none has, or they were not noted."""
    from pyspark.sql.types import StructType

    known = files_in(spark, path).read_json(TABLE_FILE)
    return StructType.fromJson(known["columns"]) if known is not None and "columns" in known else None


def _pin_shape(files: Files, path: str, partition_by: Sequence[str], columns: StructType) -> None:
    """Readers find partitions by folder names and pass over files that lie elsewhere, so all writers must agree."""
    known = files.read_json(TABLE_FILE) or {"partition_by": list(partition_by)}
    if known["partition_by"] != list(partition_by):
        raise PipelineError(
            f"{path} is partitioned by {', '.join(known['partition_by']) or 'nothing'}, not by"
            f" {', '.join(partition_by) or 'nothing'}: readers would not find the rows"
        )
    noted = known.get("columns", {"type": "struct", "fields": []})
    names = {field["name"].lower() for field in noted["fields"]}
    added = [field.jsonValue() for field in columns.fields if field.name.lower() not in names]
    if added:
        columns_now = {**noted, "fields": [*noted["fields"], *added]}
        files.write(TABLE_FILE, json.dumps({**known, "columns": columns_now}))


def _moves(files: Files, staging: str, stem: str) -> list[tuple[str, str]]:
    """Every data file of the staging folder with its final name, which is the same whenever the batch is written."""
    found = sorted(name for name in files.walk(staging) if not name.rpartition("/")[2].startswith(("_", ".")))
    moves = []
    for index, name in enumerate(found):
        folder, _, written = name.rpartition("/")
        # Readers see by the end of a name what is in a file, and how it is compressed.
        final = f"part-{stem}-{index:05d}.{written.partition('.')[2]}"
        moves.append((f"{staging}/{name}", f"{folder}/{final}" if folder else final))
    return moves


def read(spark: SparkSession, path: str, options: Mapping[str, str], stream: bool) -> DataFrame:
    """All columns that any file has; a stream takes the columns of the files that are there when it starts."""
    if not stream:
        return spark.read.options(**{"mergeSchema": "true", **options}).parquet(path)
    schema = spark.read.options(mergeSchema="true").parquet(path).schema
    return spark.readStream.schema(schema).options(**options).parquet(path)
