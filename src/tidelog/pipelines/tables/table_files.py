"""What table is at a path, seen from its files: whether there is one, its format, its columns.

`local_*` need no Spark and look at this machine only. A path without a scheme is a path of this machine unless
HADOOP_CONF_DIR is set, which may say otherwise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.pipelines.delivery.checkpoint import Files, LocalFiles, files_in
from tidelog.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS = ("parquet", "delta", "iceberg")
TABLE_FILE = "_tidelog/table.json"
"""How a directory of Parquet files is partitioned, and the columns of all its files."""
_PATTERN = frozenset("*?[{")
_LOG_FILE_BYTES_MAX = 64 << 20


def is_catalog_name(path: str) -> bool:
    """Whether this is a table of a catalog (Iceberg), not a directory."""
    return "/" not in path and not Path(path).exists()


def is_pattern(path: str) -> bool:
    """Whether this names many paths: what it matches is left to Spark."""
    return any(sign in _PATTERN for sign in path)


def local_path(path: str) -> Path | None:
    """Where the files are on this machine; None when they are, or may be, somewhere else."""
    bare = path.removeprefix("file://")
    if "://" in bare or is_catalog_name(path) or (bare == path and os.environ.get("HADOOP_CONF_DIR")):
        return None
    return Path(bare)


def local_format(path: str) -> str | None:
    """The format of a table on this machine; None when it is somewhere else. PipelineError when there is none."""
    if is_catalog_name(path):
        return "iceberg"
    place = local_path(path)
    if place is None or is_pattern(path):
        return None
    return _seen_format(LocalFiles(str(place)), place) or _refuse(path, place)


def seen_format(path: str) -> str:
    """The format of a table on this machine; empty when there is none, or it is somewhere else."""
    place = None if is_catalog_name(path) or is_pattern(path) else local_path(path)
    return "" if place is None else _seen_format(LocalFiles(str(place)), place)


def table_format(spark: SparkSession, path: str) -> str:
    """parquet, delta or iceberg; a name without a slash is an Iceberg table of a catalog."""
    found = local_format(path)
    if found is None:
        found = _seen_format(files_in(spark, path), None)
    return found or _refuse(path, None)


def require_table(spark: SparkSession, path: str, name: str) -> None:
    """PipelineError unless there is a table of this format; what only Spark can see is left to Spark."""
    if is_pattern(path):
        return
    if is_catalog_name(path):
        if not spark.catalog.tableExists(path):
            raise PipelineError(f"{path} does not exist: there is no such directory, and no such table in a catalog")
        return
    files = _visible_files(spark, path)
    if files is not None:
        place = files.place if isinstance(files, LocalFiles) else None
        check_format(path, _seen_format(files, place) or _refuse(path, place), name)


def require_target(spark: SparkSession, path: str, name: str) -> None:
    """PipelineError when there is a table of another format."""
    files = None if is_catalog_name(path) else _visible_files(spark, path)
    if files is not None:
        place = files.place if isinstance(files, LocalFiles) else None
        if place is not None and place.is_file():
            raise PipelineError(f"{path} is a file, not a directory; name another path")
        check_format(path, _seen_format(files, place) or name, name)


def _visible_files(spark: SparkSession, path: str) -> Files | None:
    """None where a path is one of a Spark Connect server, which need not be one of its client."""
    return files_in(spark, path) if hasattr(spark, "_jsc") or Path(path).exists() else None


def check_format(path: str, found: str, name: str) -> None:
    """PipelineError when a table is not of the format it is taken for."""
    if found != name:
        raise PipelineError(f"{path} is a table in the format {found}, not {name}; say {found}, or name another path")


def check_local_source(path: str, name: str) -> None:
    """PipelineError when a table of this machine is not there or has another format."""
    if "/" in path and (found := local_format(path)) is not None:
        check_format(path, found, name)


def check_local_target(path: str, name: str) -> None:
    """PipelineError when no table of this format can be made, or go on, at a path of this machine."""
    place = local_path(path) if "/" in path else None
    if place is None:
        return
    check_writable(place)
    check_format(path, seen_format(path) or name, name)


def check_writable(place: Path) -> None:
    """PipelineError when a directory of this machine is not there and cannot be made, or cannot be written."""
    there = place
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise PipelineError(f"{there} is a file, not a directory; name another path")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PipelineError(f"{place} cannot be written: no permission for {there}")


def _refuse(path: str, place: Path | None) -> str:
    if place is not None and place.is_file():
        raise PipelineError(f"{path} is a file; a table is a directory: name that")
    if place is not None and place.is_dir():
        raise PipelineError(f"{path} holds no table: no Parquet files, no Delta log, no Iceberg metadata")
    raise PipelineError(f"{path} does not exist; `tidelog archive TOPIC --to {path}` makes such a table")


def _seen_format(files: Files, place: Path | None) -> str:
    """Empty when there is no table."""
    if any(name[:20].isdigit() for name in files.names("_delta_log")):
        return "delta"
    if "version-hint.text" in files.names("metadata"):
        return "iceberg"
    # A run that ended during its first commit leaves files, and a log without a version: no table yet.
    if {"_delta_log", "metadata"} & set(files.names("")):
        return ""
    if place is not None:
        return "parquet" if next(_data_files(place), None) is not None else ""
    return "parquet" if any(not _is_hidden(name) for name in files.names("")) else ""


def _data_files(place: Path) -> Iterator[Path]:
    """The files a reader of a directory sees."""
    for folder, folders, names in os.walk(place):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        yield from (Path(folder) / name for name in names if not _is_hidden(name))


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))


# -- columns -----------------------------------------------------------------------------------------------------------


def check_columns(path: str, needed: Sequence[str], advice: str = "") -> None:
    """PipelineError when a table on this machine has not the columns of an archive, as far as its files tell."""
    name = local_format(path)
    place = local_path(path)
    columns = None if name is None or place is None else local_columns(place, name)
    if columns is not None:
        refuse_missing(path, needed, columns, advice)


def refuse_missing(path: str, needed: Sequence[str], columns: Sequence[str], advice: str = "") -> None:
    missing = [column for column in needed if column not in columns]
    if missing:
        raise PipelineError(f"{path} is no archive of a topic: it has no column {', '.join(missing)}{advice}")


def local_columns(place: Path, name: str) -> list[str] | None:
    """The columns of a table; None when its files do not tell without Spark."""
    try:
        match name:
            case "delta":
                return _delta_columns(place)
            case "iceberg":
                return _iceberg_columns(place)
            case _:
                return _parquet_columns(place)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _delta_columns(place: Path) -> list[str] | None:
    for commit in sorted((place / "_delta_log").glob("*.json"), reverse=True):
        if commit.stat().st_size > _LOG_FILE_BYTES_MAX:
            return None
        for line in commit.read_text().splitlines():
            if line.startswith('{"metaData"'):
                schema = json.loads(json.loads(line)["metaData"]["schemaString"])
                return [field["name"] for field in schema["fields"]]
    return None


def _iceberg_columns(place: Path) -> list[str] | None:
    version = (place / "metadata" / "version-hint.text").read_text().strip()
    document = json.loads((place / "metadata" / f"v{version}.metadata.json").read_text())
    current = document["current-schema-id"]
    schemas = {schema["schema-id"]: schema for schema in document["schemas"]}
    return [field["name"] for field in schemas[current]["fields"]]


def _parquet_columns(place: Path) -> list[str] | None:
    noted = place / TABLE_FILE
    if noted.exists():
        document = json.loads(noted.read_text())
        if "columns" in document:
            return [field["name"] for field in document["columns"]["fields"]]
    first = next((path for path in _data_files(place) if path.suffix == ".parquet"), None)
    if first is None:
        return None
    from pyarrow import parquet

    folders = first.relative_to(place).parts[:-1]
    partitions = [folder.partition("=")[0] for folder in folders if "=" in folder]
    return [*parquet.read_schema(first).names, *partitions]


def local_topics(path: str) -> set[str]:
    """The topics of an archive on this machine, by the folders it is partitioned into; empty when they do not tell."""
    place = local_path(path)
    if place is None:
        return set()
    folders = [*place.glob("topic=*"), *place.glob("data/topic=*")]
    return {folder.name.partition("=")[2] for folder in folders}
