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

from tests.pipelines.driver import SHORT_LIVED, Pipeline
from tests.servers.broker_process import end_with_parent, free_port, port_answers
from tests.waiting import wait_until

HERE = Path(__file__).parent
RUN_TIMEOUT_S = 400.0


def spawn(pipeline: Pipeline, output: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A driver in a process group of its own, whose number its Python workers know: some of them have to kill it."""
    command = [sys.executable, str(HERE / "driver.py"), pipeline.to_json()]
    with output.open("ab") as sink:
        return subprocess.Popen(
            ["/bin/sh", "-c", 'export TIDELOG_TEST_DRIVER=$$; exec "$@"', "driver", *command],
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


def deadly(moment: str, place: Path) -> dict[str, str]:
    """The environment in which Spark's Python workers kill at a moment (`kills/sitecustomize.py`)."""
    path = os.pathsep.join([str(HERE / "kills"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "TIDELOG_TEST_KILL": moment, "TIDELOG_TEST_PLACE": str(place)}


def run_until_killed(pipeline: Pipeline, output: Path, moment: str, place: Path) -> None:
    """Runs until the driver dies at a moment."""
    place.mkdir()
    process = spawn(pipeline, output, deadly(moment, place))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker of a standalone cluster."""

    directory: Path
    process: subprocess.Popen[bytes]

    def executors(self) -> list[int]:
        """The process ids of the executors it runs."""
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(child) for path in children for child in path.read_text().split()]


@contextmanager
def standalone_cluster(
    directory: Path, workers: int, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[Worker]]]:
    """A Spark master and workers on 127.0.0.1: the master's URL, and the workers."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port = free_port()
    variables = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
        "PYSPARK_PYTHON": sys.executable,
        **(environment or {}),
    }
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (directory / f"{name}.log").open("wb") as sink:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        processes.append(process)
        return process

    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
    try:
        start("master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        wait_until(lambda: port_answers(port), "the Spark master answers", 120)
        started = []
        for index in range(workers):
            place = directory / f"worker-{index}"
            process = start(place.name, f"{deploy}.worker.Worker", *options, "--work-dir", str(place), url)
            started.append(Worker(directory=place, process=process))
        registered = re.compile("Successfully registered with master")
        logs = [directory / f"worker-{index}.log" for index in range(workers)]
        wait_until(lambda: all(registered.search(log.read_text()) for log in logs), "the workers registered", 120)
        yield url, started
    finally:
        for process in reversed(processes):
            kill(process)
