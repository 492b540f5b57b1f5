"""One node of a `Cluster`: a process that a test can kill, stop, pause and start again."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tidelog.node.errors import NodeStartError
from tidelog.runtime.tasks import BackgroundTasks
from tidelog.testing.loop_thread import LoopThread
from tidelog.testing.relay import HOST, Relay

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 10.0
ATTEMPTS_MAX = 5
PORTS = range(20_000, 32_000)
"""Below the range that Linux takes the ports of outgoing connections from."""
LOG_LINES_SHOWN = 15
_HTTP = re.compile(r", http on ([^ ,]+), ")
"""In the line that says that a node is ready."""


class ClusterNode:
    """Belongs to its cluster, which makes and starts it."""

    def __init__(
        self,
        node_id: int,
        *,
        arguments: Callable[[int], list[str]],
        directory: Path,
        thread: LoopThread,
        relays: Sequence[Relay],
    ) -> None:
        """`arguments` are those of `tidelog serve` for a port; `relays` lead to this node, that of clients first."""
        self.node_id = node_id
        self.data = directory / f"node-{node_id}"
        self.log_path = directory / f"node-{node_id}.log"
        """What the process wrote, over all its starts."""
        self.is_paused = False
        self.http_address = ""
        """Of its HTTP door, if `http.listen` is set. No cut holds for it; with port 0 each start has another."""
        self._arguments = arguments
        self._thread = thread
        self._relays = relays
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._output: asyncio.BaseTransport | None = None
        self._tasks = BackgroundTasks()

    def __repr__(self) -> str:
        return f"<node {self.node_id}: {self.state}>"

    @property
    def bootstrap_servers(self) -> str:
        """The address that this node tells clients; a cut holds for it."""
        return f"{HOST}:{self._relays[0].port}"

    @property
    def port(self) -> int:
        """Where the process listens itself, past every cut; another one after each start."""
        return self._port

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"node {self.node_id} was not started yet")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Paused nodes run too."""
        return self._process is not None and self._process.poll() is None

    @property
    def state(self) -> str:
        if self.is_running:
            return "paused" if self.is_paused else "running"
        return "not started" if self._process is None else f"ended with code {self._process.returncode}"

    def log_tail(self, lines: int = LOG_LINES_SHOWN) -> str:
        """The last lines of its log."""
        try:
            text = self.log_path.read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    # -- what a test does to it ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """On the data it has; returns when it is ready. Needs a quorum: see `Cluster.start_nodes` for several."""
        self._thread.call(self.start_process)

    def kill(self) -> None:
        """SIGKILL: what a crash looks like. Nothing is handed over and nothing is written."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM: the node hands its partitions over and closes its logs."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: the process stays, its connections too, and nothing is answered: a machine that hangs."""
        self._send(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self._send(signal.SIGCONT)
        self.is_paused = False

    def _send(self, number: signal.Signals) -> None:
        if self._process is None or not self.is_running:
            raise RuntimeError(f"node {self.node_id} is not running: it {self.state}")
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        """Nothing happens when it has ended already."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.is_paused = False
        self._thread.call(self._note_end)

    # -- in the thread of the cluster ----------------------------------------------------------------------------------

    async def start_process(self) -> None:
        """The thread that starts a process must outlive it: Linux ends it with that thread, not with its process."""
        if self.is_running:
            raise RuntimeError(f"node {self.node_id} is running already")
        for attempt in range(1, ATTEMPTS_MAX + 1):
            written = self.log_path.stat().st_size if self.log_path.exists() else 0
            ready = await self._launch()
            if ready:
                return
            said = self.log_path.read_bytes()[written:].decode(errors="replace").strip()
            if "port is in use" not in said or attempt == ATTEMPTS_MAX:
                last = said.splitlines()[-1] if said else "it said nothing"
                raise NodeStartError(f"node {self.node_id} did not start: {last}")

    async def _launch(self) -> bool:
        """Whether it became ready; False when it ended."""
        self._port = find_free_port()
        command = [sys.executable, "-m", "tidelog.testing.node_process", str(os.getpid()), "serve"]
        with self.log_path.open("ab") as log:
            # This takes a few milliseconds, and the thread that calls it counts: see `start_process`.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                command + self._arguments(self._port), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        output = asyncio.StreamReader()
        self._output, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(output), self._process.stdout
        )
        for relay in self._relays:
            await relay.lead_to(self._port)
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                line = await output.readline()
        except TimeoutError:
            self._process.kill()
            self._process.wait()
            await self._note_end()
            raise NodeStartError(
                f"node {self.node_id} was not ready within {READY_SECONDS_MAX:g} s: {self.log_tail(1)}"
            ) from None
        if not line:
            self._process.wait()
            await self._note_end()
            return False
        http = _HTTP.search(line.decode(errors="replace"))
        self.http_address = "" if http is None else http[1]
        self._tasks.start(self._watch(output), "watch of a node's output")
        return True

    async def _watch(self, output: asyncio.StreamReader) -> None:
        """A node that ends by itself refuses connections from then on."""
        while await output.read(1 << 16):
            pass
        await self._note_end()

    async def _note_end(self) -> None:
        if self._output is not None:
            self._output.close()
        for relay in self._relays:
            await relay.lead_to(None)


def find_free_port() -> int:
    """One that is free now. Another process may take it first: then the start is tried again."""
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port
    raise NodeStartError(f"no port from {PORTS.start} to {PORTS.stop - 1} of {HOST} is free")
