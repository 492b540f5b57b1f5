"""`tidelog serve` as a process: started, waited for by its one line, stopped whatever happens."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import wait_until

READY = re.compile(
    r"tidelog (?P<version>\S+) node (?P<node>\d+) ready on (?P<address>127\.0\.0\.1:(?P<port>\d+)), "
    r"(http on (?P<http>127\.0\.0\.1:\d+), )?"
    r"data in (?P<data>.+), (?P<partitions>\d+) partitions, (?P<kind>compiled|plain Python), (?P<ms>\d+) ms\n"
)
START_SECONDS = 60.0


class Serving:
    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self.process = process
        self._errors = errors
        self.ready_line = ""

    @property
    def port(self) -> int:
        return int(self.ready()["port"])

    def ready(self) -> re.Match[str]:
        """Waits for the line on standard output and takes it apart."""
        if not self.ready_line:
            assert self.process.stdout is not None
            # Not `select`, which takes no descriptor above 1,023: tests before this one may hold many.
            output = select.poll()
            output.register(self.process.stdout, select.POLLIN)
            assert output.poll(START_SECONDS * 1000), f"not ready: {self.log()}"
            self.ready_line = self.process.stdout.readline()
        found = READY.fullmatch(_as_text(self.ready_line))
        assert found is not None, f"{self.ready_line!r} {self.log()}"
        return found

    def log(self) -> str:
        return self._errors.read_text()

    def wait(self, seconds: float = 60.0) -> int:
        return self.process.wait(seconds)

    def wait_for_log(self, words: str, seconds: float = 60.0) -> None:
        wait_until(lambda: words in self.log(), lambda: f"{words!r} in the log: {self.log()}", seconds)

    def rest_of_output(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.read()


def _as_text(line: str) -> str:
    """The line for people, of one in JSON too."""
    if not line.startswith("{"):
        return line
    told = json.loads(line)
    assert {"time", "level", "logger", "event"} <= set(told), line
    kind = "compiled" if told["compiled"] else "plain Python"
    http = f"http on {told['http']}, " if "http" in told else ""
    return (
        f"tidelog {told['version']} node {told['node']} ready on {told['address']}, {http}data in {told['data']}, "
        f"{told['partitions']} partitions, {kind}, {told['took_ms']} ms\n"
    )


def command(data: Path, *arguments: str) -> list[str]:
    base = [sys.executable, "-m", "tidelog.cli.main", "serve"]
    return [*base, "--listen", "127.0.0.1:0", "--data", str(data), *arguments]


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
    return {**kept, **(extra or {})}


@contextmanager
def serving(data: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Serving]:
    errors = data.with_suffix(f".{time.monotonic_ns()}.log")
    with errors.open("w") as log:
        process = subprocess.Popen(
            command(data, *arguments),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=clean_environment(environment),
        )
    with process:
        try:
            yield Serving(process, errors)
        finally:
            process.kill()


def refusal(data: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """The one line a start that fails prints; exit code 1 and nothing on standard output."""
    done = subprocess.run(
        command(data, *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS,
        env=clean_environment(environment),
    )
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("tidelog: ")
    return done.stderr.removeprefix("tidelog: ").rstrip("\n")
