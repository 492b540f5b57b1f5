"""`compact`: many small files of a table into few large ones; the rows stay the same.

Delta and Iceberg do it in a commit of their own that readers never see half of. A Parquet directory has no commits: new
files are written aside, a manifest names them and the files they replace, then folder by folder the new ones are moved
in and the old ones deleted. An interrupted run is finished by the next one from its manifest; a reader that lists a
folder in the moment between the two sees rows twice, and a stream that reads the directory takes the new files for new
rows. Jobs that add files meanwhile are not disturbed: files of a batch that is not done are left as they are.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.pipelines.delivery.checkpoint import Files, files_in
from tidelog.pipelines.errors import PipelineError
from tidelog.pipelines.jobs.archive import OWN_DIRECTORY
from tidelog.pipelines.tables.parquet_commit import files_in_doubt
from tidelog.pipelines.tables.table_files import local_format, table_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_BYTES = 128 * 1024 * 1024
HOME = f"{OWN_DIRECTORY}/compaction"
MANIFEST = f"{HOME}/manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    path: str
    format: str
    files_removed: int
    files_added: int


def check_compact(path: str, master: str) -> None:
    """PipelineError for what can be found without Spark."""
    found = local_format(path)
    if found not in (None, "delta") and master.startswith("sc://"):
        raise _needs_jvm(str(found))


def _needs_jvm(name: str) -> PipelineError:
    return PipelineError(f"compact works on {name} files through Spark's JVM: use another master than sc://")


def compact(spark: SparkSession, path: str, *, target_bytes: int = TARGET_BYTES) -> Compacted:
    """Rewrites files that are smaller than the target, where there are several of them."""
    found = table_format(spark, path)
    if found != "delta" and not hasattr(spark, "_jsc"):
        raise _needs_jvm(found)
    match found:
        case "delta":
            removed, added = _compact_delta(spark, path, target_bytes)
        case "iceberg":
            removed, added = _compact_iceberg(spark, path, target_bytes)
        case _:
            removed, added = _compact_parquet(spark, path, target_bytes)
    return Compacted(path=path, format=found, files_removed=removed, files_added=added)


def _compact_delta(spark: SparkSession, path: str, target_bytes: int) -> tuple[int, int]:
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(target_bytes))
    metrics = spark.sql(f"OPTIMIZE delta.`{path}`").collect()[0]["metrics"]
    return int(metrics["numFilesRemoved"]), int(metrics["numFilesAdded"])


def _compact_iceberg(spark: SparkSession, path: str, target_bytes: int) -> tuple[int, int]:
    from tidelog.pipelines.tables.iceberg_commit import table_name

    session: Any = spark
    jvm = session._jvm.org.apache.iceberg.spark
    table = jvm.Spark3Util.loadIcebergTable(session._jsparkSession, table_name(spark, path))
    action = jvm.actions.SparkActions.get(session._jsparkSession).rewriteDataFiles(table)
    result = action.option("target-file-size-bytes", str(target_bytes)).option("min-input-files", "2").execute()
    return int(result.rewrittenDataFilesCount()), int(result.addedDataFilesCount())


def _compact_parquet(spark: SparkSession, path: str, target_bytes: int) -> tuple[int, int]:
    files = files_in(spark, path)
    unfinished = files.read_json(MANIFEST)
    if unfinished is not None:
        _carry_out(files, unfinished)
    folders: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    present = _data_files(spark, path)
    in_doubt = files_in_doubt(files)
    for name, size in present:
        if size < target_bytes and name not in in_doubt:
            sizes[name] = size
            folders.setdefault(name.rpartition("/")[0], []).append(name)
    manifest: dict[str, list[Any]] = {"moves": [], "deletes": []}
    for folder, names in sorted(folders.items()):
        wanted = math.ceil(sum(sizes[name] for name in names) / target_bytes)
        if len(names) > wanted:
            manifest["moves"] += _rewrite(spark, path, folder, sorted(names), wanted)
            manifest["deletes"] += names
    if not manifest["moves"]:
        return 0, 0
    files.write(MANIFEST, json.dumps(manifest))
    _carry_out(files, manifest)
    return len(manifest["deletes"]), len(manifest["moves"])


def _data_files(spark: SparkSession, path: str) -> list[tuple[str, int]]:
    """Name below the table and size of every Parquet file a reader sees."""
    session: Any = spark
    root = session._jvm.org.apache.hadoop.fs.Path(path)
    system = root.getFileSystem(session._jsc.hadoopConfiguration())
    prefix = system.makeQualified(root).toUri().getPath().rstrip("/") + "/"
    listing = system.listFiles(root, True)
    found = []
    while listing.hasNext():
        status = listing.next()
        name = str(status.getPath().toUri().getPath()).removeprefix(prefix)
        hidden = any(part.startswith(("_", ".")) for part in name.split("/"))
        if name.endswith(".parquet") and not hidden:
            found.append((name, int(status.getLen())))
    return found


def _rewrite(spark: SparkSession, path: str, folder: str, names: Sequence[str], count: int) -> list[list[str]]:
    """Writes the rows of some files of a folder aside, as `count` files; what to move where."""
    base = path.rstrip("/")
    frame = spark.read.option("mergeSchema", "true").parquet(*(f"{base}/{name}" for name in names)).coalesce(count)
    order = [column for column in ("partition", "offset") if column in frame.columns]
    if order:
        frame = frame.sortWithinPartitions(*order)
    stem = uuid.uuid4().hex[:12]
    staging = f"{HOME}/{stem}"
    frame.write.parquet(f"{base}/{staging}")
    written = [name for name in files_in(spark, path).names(staging) if name.endswith(".parquet")]
    prefix = f"{folder}/" if folder else ""
    return [
        [f"{staging}/{name}", f"{prefix}part-compacted-{stem}-{number:05d}.parquet"]
        for number, name in enumerate(sorted(written))
    ]


def _carry_out(files: Files, manifest: dict[str, list[Any]]) -> None:
    """Moves and deletes what is not moved and deleted yet; folder by folder, so that none is doubled for long."""
    folders = dict.fromkeys(target.rpartition("/")[0] for _, target in manifest["moves"])
    for folder in folders:
        for source, target in manifest["moves"]:
            if target.rpartition("/")[0] == folder:
                files.move(source, target)
        for name in manifest["deletes"]:
            if name.rpartition("/")[0] == folder:
                files.delete(name)
    files.delete(HOME)
