"""A node under callgrind, and what it does between two moments.

Counting starts when the node runs, so that its start is not paid for: valgrind alone makes it three times slower,
counting twenty times.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Self

from tests.servers.broker_process import BrokerProcess
from tests.servers.tidelog_node import start_tidelog
from tests.waiting import wait_until

from benchmarks.checkouts import Checkout
from benchmarks.instructions.profile import read_instructions

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    # Heartbeats come by the clock, and so hardly ever (quiet_node.py).
    "broker.session.timeout.ms": "3600000",
}
VARIABLES = {"PYTHONHASHSEED": "0"}
"""The order of sets and the collisions in dictionaries are part of a count."""
QUIET_NODE = Path(__file__).with_name("quiet_node.py")
ASLEEP_INTERVAL_S = 0.00005
COMMAND_TIMEOUT_S = 60.0
POLL_BLOCKS = 5000
"""So often, in blocks of instructions, valgrind looks for commands; one that waits in the kernel is woken."""


class MissingValgrind(Exception):
    """The message says what is not installed."""


class CountedNode:
    """As a context manager it is stopped at the end."""

    def __init__(self, checkout: Checkout, directory: Path) -> None:
        for tool in ("valgrind", "vgdb"):
            if shutil.which(tool) is None:
                raise MissingValgrind(f"{tool}: not found on PATH (valgrind counts the instructions)")
        self._profiles = directory / "profile"
        self._dumps = 0
        self._broker = self._start(checkout, directory)
        self._command("instrumentation", "on")

    def _start(self, checkout: Checkout, directory: Path) -> BrokerProcess:
        options = ("--instr-atstart=no", f"--vgdb-poll={POLL_BLOCKS}", f"--callgrind-out-file={self._profiles}")
        return start_tidelog(
            directory,
            settings=SETTINGS,
            wrapper=("valgrind", "--tool=callgrind", *options),
            program=checkout.program("-P", str(QUIET_NODE), variables=VARIABLES),
        )

    @property
    def port(self) -> int:
        return self._broker.port

    def take_count(self) -> int:
        """Instructions since the last time."""
        self._command("dump")
        self._dumps += 1
        profile = self._profiles.with_name(f"{self._profiles.name}.{self._dumps}")
        instructions = read_instructions(profile.read_text())
        profile.unlink()
        return instructions

    def wait_until_asleep(self) -> None:
        """A node that has sent its answer goes around its loop until it has nothing to do. A request that comes earlier
        saves it some of that, so counts would depend on how fast the client is."""
        state = Path(f"/proc/{self._broker.pid}/stat")
        wait_until(
            lambda: state.read_text().rpartition(") ")[2].startswith("S"),
            "the node has nothing to do",
            interval_s=ASLEEP_INTERVAL_S,
        )

    def _command(self, *words: str) -> None:
        command = ["vgdb", f"--pid={self._broker.pid}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
        if done.returncode:
            raise RuntimeError(f"callgrind does not {' '.join(words)}: {done.stderr[-500:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._broker.__exit__(*exc_info)
