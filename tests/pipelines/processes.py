"""Pipelines and Spark clusters as processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker_process import end_with_parent, free_port, port_answers, wait_until

HERE = Path(__file__).parent
RUN_TIMEOUT_S = 400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The arguments of `driver.py`."""

    bootstrap: str
    source: str
    sink: str
    checkpoint: str
    per_batch: int
    master: str = "local[2]"


def spawn(pipeline: Pipeline, output: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A driver in a process group of its own."""
    arguments = (pipeline.bootstrap, pipeline.source, pipeline.sink, pipeline.checkpoint, str(pipeline.per_batch))
    with output.open("ab") as sink:
        return subprocess.Popen(
            [sys.executable, str(HERE / "driver.py"), *arguments, pipeline.master],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            preexec_fn=end_with_parent,
        )


def run(pipeline: Pipeline, output: Path) -> None:
    """Runs to the end of what is there; the output is in the failure if it does not get there."""
    process = spawn(pipeline, output)
    try:
        assert process.wait(RUN_TIMEOUT_S) == 0, output.read_text()[-3000:]
    finally:
        kill(process)


def run_until_killed(pipeline: Pipeline, output: Path, moment: str, place: Path) -> None:
    """Runs until the driver dies at a moment (`kills/sitecustomize.py`)."""
    place.mkdir()
    script = place / "driver.sh"
    # The workers must know the process group to kill, which is known when the driver starts.
    script.write_text('export TIDELOG_TEST_DRIVER=$$\nexec "$@"\n')
    arguments = (pipeline.bootstrap, pipeline.source, pipeline.sink, pipeline.checkpoint, str(pipeline.per_batch))
    path = os.pathsep.join([str(HERE / "kills"), *filter(None, [os.environ.get("PYTHONPATH")])])
    with output.open("ab") as sink:
        process = subprocess.Popen(
            ["/bin/sh", str(script), sys.executable, str(HERE / "driver.py"), *arguments, pipeline.master],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path, "TIDELOG_TEST_KILL": moment, "TIDELOG_TEST_PLACE": str(place)},
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    try:
        assert process.wait(RUN_TIMEOUT_S) == -signal.SIGKILL, output.read_text()[-3000:]
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the driver and its JVM, which are one process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait(30)


@contextmanager
def standalone_cluster(directory: Path, workers: int) -> Iterator[tuple[str, list[Path]]]:
    """A Spark master and workers on 127.0.0.1: the master's URL, and the workers' directories."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port = free_port()
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        with log.open("wb") as sink:
            command = [str(home / "bin" / "spark-class"), *arguments]
            processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=end_with_parent,
                )
            )
        return log

    url = f"spark://127.0.0.1:{port}"
    homes = [directory / f"worker-{index}" for index in range(workers)]
    try:
        deploy = "org.apache.spark.deploy"
        start("master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        wait_until(lambda: port_answers(port), "the Spark master answers", 120)
        logs = []
        for index, worker in enumerate(homes):
            options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
            logs.append(start(f"worker-{index}", f"{deploy}.worker.Worker", *options, "--work-dir", str(worker), url))
        registered = re.compile("Successfully registered with master")
        wait_until(lambda: all(registered.search(log.read_text()) for log in logs), "the workers registered", 120)
        yield url, homes
    finally:
        for process in reversed(processes):
            kill(process)
