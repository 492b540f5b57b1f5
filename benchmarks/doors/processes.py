"""The processes of a run beside the node: clients that answer in JSON, and servers that do nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TIMEOUT_S = 300.0


def run_client(module: str, *arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


@contextmanager
def empty_server(module: str) -> Iterator[tuple[int, int]]:
    """Its process id and port. The end of its standard input ends it."""
    command = [sys.executable, "-m", module]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            yield server.pid, int(server.stdout.readline())
        finally:
            server.stdin.close()
