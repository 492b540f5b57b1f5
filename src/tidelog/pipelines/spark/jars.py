"""The jars a session needs beside Spark's own: pinned here, fetched once, found again without a network.

They are kept under `$XDG_CACHE_HOME/tidelog/spark-jars` (default `~/.cache/tidelog/spark-jars`), named by coordinate. A
jar enters the cache by an atomic rename after its checksum was compared, so whatever is there is whole. Where jars come
from is the machine's business: Spark's resolver asks the local Maven repository and its default registry, or what
`TIDELOG_IVY_SETTINGS` (a file) and `TIDELOG_MAVEN_REPOSITORIES` (comma separated) say.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.pipelines.errors import MissingRequirement, PipelineError

RESOLVE_TIMEOUT_S = 600.0
_COORDINATE = re.compile(r"[A-Za-z0-9._-]+:[A-Za-z0-9._-]+:[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact by Maven coordinate; the checksum is known for those pinned here."""

    coordinate: str
    sha256: str | None = None

    @property
    def file_name(self) -> str:
        group, artifact, version = self.coordinate.split(":")
        return f"{group}_{artifact}-{version}.jar"


CONNECTOR = (
    Jar(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
        "cb31ffd9c8f5527dba061db8af671d295562092e4f3f5ff42fc249fab8a8fde6",
    ),
    Jar(
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar("org.apache.kafka:kafka-clients:3.9.1", "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9"),
    Jar("org.apache.commons:commons-pool2:2.12.1", "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef"),
    Jar("org.apache.spark:spark-avro_2.13:4.1.1", "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d"),
)
"""Every session has these: Spark's Kafka connector with what it needs, and Spark's Avro functions."""

TABLES = {
    "delta": (
        Jar("io.delta:delta-spark_4.1_2.13:4.4.0", "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10"),
        Jar("io.delta:delta-storage:4.4.0", "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"),
    ),
    "iceberg": (
        Jar(
            "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
            "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
        ),
    ),
}
"""What a session has when it is asked for a table format. Parquet needs nothing."""


def pinned_jars(tables: Iterable[str] = ()) -> tuple[Jar, ...]:
    """The jars of a session with these table formats."""
    chosen = list(CONNECTOR)
    for table in tables:
        if table not in TABLES:
            raise PipelineError(f"table format {table!r}: {', '.join(sorted(TABLES))} can be asked for")
        chosen.extend(TABLES[table])
    return tuple(chosen)


def extra_jars(packages: Iterable[str]) -> tuple[Jar, ...]:
    """Further jars by coordinate, as the user names them; each is taken alone, without what it depends on."""
    for package in packages:
        if not _COORDINATE.fullmatch(package):
            raise PipelineError(f"package {package!r}: a Maven coordinate is group:artifact:version")
    return tuple(Jar(package) for package in packages)


def cache_directory() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tidelog" / "spark-jars"


def jar_paths(jars: Sequence[Jar], directory: Path | None = None) -> list[Path]:
    """The files of these jars; the missing ones are fetched. Raises MissingRequirement with one line."""
    target = cache_directory() if directory is None else directory
    if _missing(jars, target):
        try:
            target.mkdir(parents=True, exist_ok=True)
            with (target / ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                _fetch(_missing(jars, target), target)
        except OSError as error:
            raise MissingRequirement(f"the jar cache {target} cannot be written: {error}") from None
    return [target / jar.file_name for jar in jars]


def _missing(jars: Sequence[Jar], directory: Path) -> list[Jar]:
    return [jar for jar in jars if not (directory / jar.file_name).is_file()]


def _fetch(jars: list[Jar], target: Path) -> None:
    if not jars:
        return
    work = Path(tempfile.mkdtemp(prefix=".fetch-", dir=target))
    try:
        for jar, fetched in zip(jars, _resolve(jars, work), strict=True):
            _check(jar, fetched)
            fetched.replace(target / jar.file_name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _resolve(jars: list[Jar], work: Path) -> list[Path]:
    """Spark's own resolver, in a process of its own: the JVM that resolves must not become the session's."""
    command = [sys.executable, "-m", "tidelog.pipelines.spark.resolver", str(work), *(jar.coordinate for jar in jars)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RESOLVE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise MissingRequirement(_unreachable(jars, f"no answer in {RESOLVE_TIMEOUT_S:.0f} s")) from None
    answer = _last_json(result.stdout)
    if answer is None or "error" in answer:
        last = (result.stderr.strip().splitlines() or ["no output"])[-1]
        raise MissingRequirement(_unreachable(jars, str(answer["error"]) if answer else last))
    found = {Path(path).name: Path(path) for path in answer["paths"]}
    absent = [jar.coordinate for jar in jars if jar.file_name not in found]
    if absent:
        raise MissingRequirement(_unreachable(jars, f"nothing came back for {', '.join(absent)}"))
    return [found[jar.file_name] for jar in jars]


def _last_json(text: str) -> dict[str, list[str]] | None:
    """What the resolver process says is its last line; a JVM may have printed before it."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            answer: dict[str, list[str]] = json.loads(line)
            return answer
    return None


def _unreachable(jars: Sequence[Jar], reason: str) -> str:
    names = ", ".join(jar.coordinate for jar in jars)
    return (
        f"the jars {names} cannot be fetched ({reason}); they are needed once: give this machine a way to a Maven"
        f" registry (TIDELOG_MAVEN_REPOSITORIES or TIDELOG_IVY_SETTINGS), or copy them into {cache_directory()}"
    )


def _check(jar: Jar, path: Path) -> None:
    if jar.sha256 is None:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != jar.sha256:
        raise MissingRequirement(f"{jar.coordinate} came with checksum {found}, pinned is {jar.sha256}: not used")
