"""Runs the `tidelog` command as a process, and holds what it printed; topics for tests, made without the command."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

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
        # Nothing is there: the profiles of the one who runs the tests are not theirs.
        config = f"{tempfile.gettempdir()}/no-configuration"
        self.environment = {**os.environ, "TIDELOG_BOOTSTRAP": bootstrap, "XDG_CONFIG_HOME": config}
        for name in ("TIDELOG_DEBUG", "TIDELOG_PROFILE"):
            self.environment.pop(name, None)

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

    def on_terminal(self, *arguments: str) -> str:
        """Runs the command with standard output and error on a terminal and returns what that shows."""
        ours, theirs = pty.openpty()
        environment = {**self.environment, "TERM": "dumb", "COLUMNS": "120"}
        process = subprocess.Popen(
            [*TIDELOG, *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment
        )
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):
            # Linux reports the end of a terminal as an error.
            while chunk := os.read(ours, 65536):
                shown += chunk
        os.close(ours)
        assert process.wait(timeout=COMMAND_SECONDS_MAX) == 0, shown
        return shown.decode()

    def answering(self, answer: bytes, *arguments: str) -> Done:
        """Runs the command with standard input on a terminal, where this is typed."""
        ours, theirs = pty.openpty()
        try:
            process = subprocess.Popen(
                [*TIDELOG, *arguments],
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self.environment,
            )
            os.write(ours, answer)
            out, errors = process.communicate(timeout=COMMAND_SECONDS_MAX)
        finally:
            os.close(ours)
            os.close(theirs)
        return Done(process.returncode, out.decode(), errors.decode())

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts the command and returns at once; its output is read from pipes."""
        return subprocess.Popen(
            [*TIDELOG, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )


def make_name(base: str) -> str:
    """A name that is legal for topics and groups, and new."""
    return f"{re.sub(r'[^a-z0-9]+', '-', base.lower()).strip('-')[:60]}-{os.urandom(4).hex()}"


class Topics:
    """What a test starts from; made by a client in this process, as a command each would take most of the time."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=configs or {})
        self._admin.create_topics([topic], operation_timeout=10)[name].result()

    def fill(self, name: str, partition: int, values: list[bytes], timestamp_ms: int = 0) -> None:
        """Writes values to one partition, in order."""
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})
        failures: list[object] = []
        for value in values:
            producer.produce(
                name,
                value,
                partition=partition,
                timestamp=timestamp_ms,
                on_delivery=lambda error, _message: failures.append(error) if error else None,
            )
        assert producer.flush(COMMAND_SECONDS_MAX) == 0
        assert not failures, failures[0]

    def delete(self, names: list[str]) -> None:
        if names:
            for future in self._admin.delete_topics(names).values():
                future.result()
