"""Runs the `tidelog` command as a process, and holds what it printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any, NamedTuple

TIDELOG = [sys.executable, "-m", "tidelog.cli.main"]
COMMAND_SECONDS_MAX = 60


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Command:
    """Runs `tidelog ...` against the broker of the tests."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.environment = {**os.environ, "TIDELOG_BOOTSTRAP": bootstrap}
        self.environment.pop("TIDELOG_DEBUG", None)

    def __call__(self, *arguments: str, stdin: bytes = b"", fails: bool = False) -> Done:
        done = subprocess.run(
            [*TIDELOG, *arguments],
            input=stdin,
            capture_output=True,
            env=self.environment,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        result = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert (result.code != 0) is fails, f"tidelog {' '.join(arguments)} -> {result}"
        if fails:
            assert re.fullmatch(r"tidelog: [^\n]+\n", result.err), result.err
        return result

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts the command and returns at once; its output is read from pipes."""
        return subprocess.Popen(
            [*TIDELOG, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )
