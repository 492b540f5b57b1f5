"""Tidelog as a user runs it: `tidelog serve` in a process of its own.

Compiled Python files are allowed, because an installed package has them; a machine that forbids them would pay for
compiling at every start.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.servers.broker_process import BrokerFailure, BrokerProcess, end_with_parent
from tests.waiting import wait_until

START_TIMEOUT_S = 30.0
READY = re.compile(r"127\.0\.0\.1:(\d+)")
"""The one line that `tidelog serve` prints when it is ready names the address it listens on."""


class Program(NamedTuple):
    """A `tidelog` and what its environment says."""

    command: Sequence[str]
    environment: Mapping[str, str]


def installed_program() -> Program:
    """The one of the environment that this runs in."""
    script = Path(sys.executable).with_name("tidelog")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "tidelog.cli.main"]
    return Program(command, serve_environment())


def serve_command(
    data: Path, *, port: int = 0, settings: Mapping[str, str] | None = None, program: Program | None = None
) -> list[str]:
    command = (program or installed_program()).command
    options = [part for name, value in (settings or {}).items() for part in ("-o", f"{name}={value}")]
    return [*command, "serve", "--listen", f"127.0.0.1:{port}", "--data", str(data), *options]


def serve_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def spawn_tidelog(
    directory: Path,
    port: int,
    *,
    settings: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    wrapper: Sequence[str] = (),
    program: Program | None = None,
) -> BrokerProcess:
    """Start the process without waiting; the port is only known when it is given or the ready line was read."""
    directory.mkdir(parents=True, exist_ok=True)
    ready, output = directory / "ready", directory / "output"
    program = program or installed_program()
    serve = serve_command(directory / "data", port=port, settings=settings, program=program)
    command = [*wrapper, *serve, *arguments]
    with ready.open("wb") as standard_output, output.open("ab") as standard_error:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=standard_output,
            stderr=standard_error,
            env=program.environment,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    return BrokerProcess(kind="tidelog", port=port, data=directory / "data", output=output, process=process)


def start_tidelog(
    directory: Path,
    *,
    port: int = 0,
    settings: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    wrapper: Sequence[str] = (),
    program: Program | None = None,
) -> BrokerProcess:
    """Start, and return when the ready line is there."""
    broker = spawn_tidelog(directory, port, settings=settings, arguments=arguments, wrapper=wrapper, program=program)
    wait_until_ready(broker)
    return broker


def wait_until_ready(broker: BrokerProcess) -> None:
    """Returns when the ready line is there, and has the port from it."""
    ready = broker.output.with_name("ready")
    try:
        wait_until(
            lambda: not broker.alive() or READY.search(ready.read_text()) is not None,
            "the ready line of tidelog serve",
            START_TIMEOUT_S,
        )
    except TimeoutError:
        broker.kill()
        raise
    address = READY.search(ready.read_text())
    if not broker.alive() or address is None:
        broker.process.wait(30)
        raise BrokerFailure(f"tidelog serve ended with {broker.process.returncode}: {broker.log_text()[-2000:]}")
    broker.port = int(address.group(1))
