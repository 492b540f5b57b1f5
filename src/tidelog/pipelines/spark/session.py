"""`session()`: a SparkSession with the Kafka connector on its class path, on any master.

The master is an argument, or `TIDELOG_SPARK_MASTER`, or `local[*]`; no code changes between them. A local session
listens on 127.0.0.1 only. On a cluster the executors get the jars and this package from the driver; compiled packages
(confluent-kafka, pyarrow) must be in the Python they run, which `python=` chooses or ships. A Spark Connect server
(`sc://`) has the jars and packages that it was started with.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.pipelines.errors import MissingRequirement, PipelineError
from tidelog.pipelines.spark.gateway import start_jvm
from tidelog.pipelines.spark.jars import cache_directory, extra_jars, jar_paths, pinned_jars
from tidelog.pipelines.spark.java import find_java
from tidelog.pipelines.spark.masters import check_master_answers
from tidelog.pipelines.spark.shuffles import DELTA_LOG_PARTITIONS, SHUFFLE_PARTITIONS, size_shuffles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_VARIABLE = "TIDELOG_SPARK_MASTER"
DEFAULT_MASTER = "local[*]"
JARS_SETTING = "spark.tidelog.jars"
"""Names the jars a session was made with, so that a running session that lacks some is recognised."""
_MASTERS = ("local", "spark://", "yarn", "k8s://", "sc://")
_ARCHIVES = (".tar.gz", ".tgz", ".zip", ".tar")

_DELTA = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def session(
    master: str | None = None,
    *,
    app: str = "tidelog",
    tables: Sequence[str] = (),
    packages: Sequence[str] = (),
    config: Mapping[str, str] | None = None,
    python: str | None = None,
) -> SparkSession:
    """A SparkSession that reads and writes topics and tables; the running one, if it has everything asked for.

    `tables` adds "delta" or "iceberg", `packages` further jars by Maven coordinate, `config` Spark settings (they win
    over the ones chosen here). `python` is the interpreter of the executors, or an archive of an environment that is
    shipped to them (a local session needs none and leaves it); by default what PYSPARK_PYTHON says, else the one that
    runs this. Raises PipelineError with one line: no Java, a wrong Java, jars that cannot be fetched, an unknown
    master.
    """
    chosen = choose_master(master)
    if find_spec("pyspark") is None:
        raise MissingRequirement("PySpark is not installed; pip install 'tidelog[spark]' brings it")
    check_master_answers(chosen)
    if chosen.startswith("sc://"):
        return _connect(chosen, config or {})
    from pyspark.sql import SparkSession

    jars = (*pinned_jars(tables), *extra_jars(packages))
    names = sorted(jar.file_name for jar in jars)
    running = SparkSession.getActiveSession()
    if running is not None:
        return _fitting(running, names)
    find_java()
    settings = {
        **default_settings(chosen),
        **table_settings(tables),
        **python_settings(chosen, python),
        "spark.jars": ",".join(str(path) for path in jar_paths(jars)),
        JARS_SETTING: ",".join(names),
        **(config or {}),
    }
    try:
        with _environment(PYSPARK_PYTHON=worker_python(chosen, python), PYSPARK_DRIVER_PYTHON=sys.executable):
            _start_context(chosen, app, settings)
        spark: SparkSession = SparkSession.builder.config(map=settings).getOrCreate()
        if not is_local(chosen):
            size_shuffles(spark, config or {})
        return spark
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(f"Spark did not start on {chosen}: {_first_line(error)}") from error


def choose_master(master: str | None = None) -> str:
    """The master asked for, from the argument or the environment; raises PipelineError when it is not one."""
    chosen = master or os.environ.get(MASTER_VARIABLE) or DEFAULT_MASTER
    if not chosen.startswith(_MASTERS):
        raise PipelineError(f"master {chosen!r}: use local[N], spark://HOST:PORT, yarn, k8s://URL or sc://HOST:PORT")
    return chosen


def is_local(master: str) -> bool:
    return master.startswith("local")


def default_settings(master: str) -> dict[str, str]:
    """Settings every session has unless `config` says otherwise."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
    }
    if is_local(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            SHUFFLE_PARTITIONS: str(max(2, local_threads(master))),
            # Delta reads its log in 50 tasks by default, which is most of a small commit.
            DELTA_LOG_PARTITIONS: "2",
        }
    return settings


def local_threads(master: str) -> int:
    """How many tasks `local[N]` runs at once."""
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0].strip()
    if inside == "*":
        return os.cpu_count() or 1
    return int(inside) if inside.isdigit() else 1


def table_settings(tables: Sequence[str]) -> dict[str, str]:
    """The SQL extensions and catalogs of the table formats asked for."""
    if not tables:
        return {}
    settings = {"spark.sql.extensions": ",".join(_EXTENSIONS[table] for table in tables)}
    return settings | (_DELTA if "delta" in tables else {})


def python_settings(master: str, python: str | None) -> dict[str, str]:
    """How executors get this package, and an environment that is shipped."""
    if is_local(master):
        return {}
    settings = {"spark.submit.pyFiles": str(package_archive())}
    if python is not None and python.endswith(_ARCHIVES):
        settings["spark.archives"] = f"{python}#environment"
    return settings


def worker_python(master: str, python: str | None) -> str:
    """The interpreter that executors start. PySpark reads it from the environment of the driver and nowhere else."""
    if python is None:
        return os.environ.get("PYSPARK_PYTHON") or sys.executable
    if python.endswith(_ARCHIVES):
        return sys.executable if is_local(master) else "./environment/bin/python"
    return python


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Sets variables while Spark starts; what the user had set is there again afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def package_archive() -> Path:
    """This package as a zip for executors: the pipelines and what they import, nothing of the broker."""
    from tidelog.version import __version__

    package = Path(__file__).parents[2]
    folders = ("pipelines", "config", "model")
    sources = sorted(package.glob("*.py"))
    sources += sorted(source for folder in folders for source in (package / folder).rglob("*.py"))
    stamp = max(source.stat().st_mtime_ns for source in sources)
    archive = cache_directory().with_name("packages") / f"tidelog-{__version__}-{stamp:x}.zip"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        unfinished = archive.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as zipped:
            for source in sources:
                zipped.write(source, source.relative_to(package.parent))
        unfinished.replace(archive)
    return archive


def _start_context(master: str, app: str, settings: Mapping[str, str]) -> None:
    """Spark in a JVM of our own making; in the one there is, when an earlier session left it running."""
    from pyspark import SparkConf, SparkContext

    if SparkContext._active_spark_context is not None:
        return
    conf = SparkConf().setMaster(master).setAppName(app).setAll(list(settings.items()))
    handler = signal.getsignal(signal.SIGINT)
    SparkContext(conf=conf, gateway=SparkContext._gateway or start_jvm(conf))
    # PySpark puts a handler of its own in place of the one that the program has.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def _connect(master: str, config: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    try:
        builder = SparkSession.builder.remote(master)
        for name, value in config.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        size_shuffles(spark, config)
        return spark
    except Exception as error:
        raise PipelineError(f"no Spark Connect session on {master}: {_first_line(error)}") from error


def _fitting(running: SparkSession, names: Sequence[str]) -> SparkSession:
    """The running session, if its class path has the jars; a JVM cannot be given more afterwards."""
    present = set((running.conf.get(JARS_SETTING, "") or "").split(","))
    absent = [name for name in names if name not in present]
    if absent:
        raise PipelineError(
            f"a Spark session without {', '.join(absent)} is running in this process; stop it (spark.stop()) first"
        )
    return running


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
