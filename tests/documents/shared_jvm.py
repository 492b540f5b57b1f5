"""One JVM with Spark for the commands of all documents: a start of Spark takes longer than most commands.

PySpark takes a JVM that runs already when PYSPARK_GATEWAY_PORT names it. Every command still has a Spark context of its
own; one that a command left behind is stopped before the next. Run as a program this file holds the JVM.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import IO

_ANSWERS = b"{"


class SharedJvm:
    def __init__(self, enter: list[str], directory: Path) -> None:
        """Commands that use it run in `directory`: relative paths are relative to where the JVM was started."""
        self._enter = enter
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._variables: dict[str, str] = {}

    def variables(self) -> dict[str, str]:
        """The environment of commands that use it; the first call starts it."""
        if self._process is None:
            self._process = subprocess.Popen(
                [*self._enter, sys.executable, str(Path(__file__).resolve())],
                cwd=self.directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            self._variables = json.loads(self._answer())
        return self._variables

    def stop_what_is_left(self) -> None:
        """A context whose program ended without stopping it."""
        if self._process is not None:
            stdin = self._process.stdin
            assert stdin is not None
            stdin.write(b"stop\n")
            stdin.flush()
            self._answer()

    def _answer(self) -> bytes:
        assert self._process is not None
        output: IO[bytes] | None = self._process.stdout
        assert output is not None
        for line in output:
            if line.startswith(_ANSWERS):
                return line
        raise RuntimeError("the JVM of the documents ended; its reason stands above")

    def close(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _hold() -> None:
    from pyspark import SparkConf

    from tidelog.pipelines.spark.gateway import start_jvm
    from tidelog.pipelines.spark.jars import jar_paths, pinned_jars
    from tidelog.pipelines.spark.session import default_settings

    settings = default_settings("local[*]")
    settings["spark.jars"] = ",".join(str(path) for path in jar_paths(pinned_jars(("delta",))))
    settings["spark.driver.memory"] = "1g"
    gateway = start_jvm(SparkConf().setAll(list(settings.items())))
    parameters = gateway.gateway_parameters
    named = {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
    print(json.dumps(named), flush=True)
    for _ in sys.stdin:
        contexts = getattr(getattr(gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$")
        active = contexts.getActive()
        if active.isDefined():
            active.get().stop()
        sessions = gateway.jvm.org.apache.spark.sql.classic.SparkSession
        sessions.clearActiveSession()
        sessions.clearDefaultSession()
        # Another document may have a table of the same name.
        gateway.jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        print("{}", flush=True)
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)


if __name__ == "__main__":
    _hold()
