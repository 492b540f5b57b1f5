"""Several nodes on this machine from one command: started, watched, started again when they die, stopped together."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from tidelog.cli.errors import CommandError
from tidelog.cli.output import note

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 10.0
POLL_SECONDS = 0.1
RESTART_SECONDS_MIN = 0.5
RESTART_SECONDS_MAX = 30.0
VOTERS_MAX = 3
PORT_MAX = 65535
PLAN_FILE = "cluster.json"

_PR_SET_PDEATHSIG = 1


class _LocalNode:
    def __init__(self, node_id: int, command: list[str]) -> None:
        self.node_id = node_id
        self._command = command
        self.process: subprocess.Popen[bytes] | None = None
        self.pause_s = RESTART_SECONDS_MIN
        self.started_s = 0.0
        self.restart_at_s: float | None = None

    def start(self) -> None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        self.started_s = time.monotonic()
        self.restart_at_s = None
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent
        )

    def read_ready_line(self, deadline_s: float) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline_s - time.monotonic()))
        line = self.process.stdout.readline().decode(errors="replace").strip() if readable else ""
        if not line:
            # Its output ends a moment before the process does.
            why = f"ended with code {self.process.wait()}" if readable else "was not ready in time"
            raise CommandError(f"node {self.node_id} {why}; its reason stands above")
        return line

    def maybe_restart(self) -> None:
        """A node that died is started again, ever later if it keeps dying."""
        now_s = time.monotonic()
        if self.restart_at_s is not None:
            if now_s >= self.restart_at_s:
                self.start()
        elif self.process is not None and self.process.poll() is not None:
            if now_s - self.started_s > RESTART_SECONDS_MAX:
                self.pause_s = RESTART_SECONDS_MIN
            note(f"node {self.node_id} ended with code {self.process.returncode}; again in {self.pause_s:g} s")
            self.restart_at_s = now_s + self.pause_s
            self.pause_s = min(RESTART_SECONDS_MAX, self.pause_s * 2)


class LocalCluster:
    """`start`, `watch` until a signal comes, `stop`."""

    def __init__(
        self,
        *,
        nodes: int,
        data: Path,
        host: str,
        port: int,
        first_id: int = 1,
        arguments: list[str] | None = None,
        voters_max: int = VOTERS_MAX,
    ) -> None:
        """Ports are consecutive from `port` on, or free ones for 0. `arguments` are added to every `tidelog serve`.

        The first nodes are voters of the metadata quorum, an odd number up to `voters_max`; the others join them.
        """
        self._data = data
        self._host = host
        self.ports = _choose_ports(data, host, port, nodes)
        node_ids = range(first_id, first_id + nodes)
        voters = min(nodes if nodes % 2 else nodes - 1, voters_max)
        addresses = [f"{host}:{chosen}" for chosen in self.ports]
        voter_list = ",".join(f"{n}@{a}" for n, a in list(zip(node_ids, addresses, strict=True))[:voters])
        self._nodes = []
        for index, node_id in enumerate(node_ids):
            command = [sys.executable, "-m", "tidelog.cli.main", "serve", "--listen", addresses[index]]
            command += ["--data", str(data / f"node-{node_id}"), "--node-id", str(node_id)]
            if index >= voters:
                command += ["--join", ",".join(addresses[:voters])]
            elif voters > 1:
                command += ["-o", f"controller.quorum.voters={voter_list}"]
            self._nodes.append(_LocalNode(node_id, command + (arguments or [])))
        self._signals = 0

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self._host}:{port}" for port in self.ports)

    @property
    def pids(self) -> dict[int, int]:
        return {node.node_id: node.process.pid for node in self._nodes if node.process is not None}

    @property
    def ended(self) -> list[int]:
        """The nodes whose process is not there any more."""
        return [node.node_id for node in self._nodes if node.process is not None and node.process.poll() is not None]

    def start(self) -> None:
        """Returns when every node is ready; CommandError, with all of them stopped, when one is not."""
        # What all nodes would complain about is said once, before there are any.
        _check_ports(self._host, self.ports)
        try:
            self._data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"the data directory {self._data} cannot be made: {error.strerror}") from None
        (self._data / PLAN_FILE).write_text(json.dumps({"host": self._host, "ports": self.ports}))
        try:
            self._start(self._nodes)
        except BaseException:
            self.stop()
            raise

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            for node in self._nodes:
                if node.process is not None:
                    node.process.kill()

    def catch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def watch(self) -> None:
        """Until a signal comes."""
        while not self._signals:
            time.sleep(POLL_SECONDS)
            for node in self._nodes:
                node.maybe_restart()

    def send_signal(self, node_id: int, number: int) -> None:
        """To one node, for those who try what happens then."""
        node = next(node for node in self._nodes if node.node_id == node_id)
        assert node.process is not None, "the node was started"
        node.process.send_signal(number)
        if number == signal.SIGKILL:
            node.process.wait()

    def start_again(self, *node_ids: int) -> None:
        """Nodes that ended; returns when all of them are ready."""
        self._start([node for node in self._nodes if node.node_id in node_ids])

    @staticmethod
    def _start(nodes: list[_LocalNode]) -> None:
        for node in nodes:
            node.start()
        deadline_s = time.monotonic() + READY_SECONDS_MAX
        for node in nodes:
            node.read_ready_line(deadline_s)

    def stop(self) -> int:
        """All of them at once; those that do not end in time are killed."""
        living = [node.process for node in self._nodes if node.process is not None and node.process.poll() is None]
        for process in living:
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGCONT)
        deadline_s = time.monotonic() + STOP_SECONDS_MAX
        failed = 0
        for process in living:
            try:
                process.wait(max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                failed = 1
        for node in self._nodes:
            if node.process is not None and node.process.stdout is not None:
                node.process.stdout.close()
        return failed


def _choose_ports(data: Path, host: str, port: int, nodes: int) -> list[int]:
    if port:
        return list(range(port, port + nodes))
    try:
        # Nodes know one another by their addresses: what was started once is started there again.
        ports = json.loads((data / PLAN_FILE).read_text())["ports"]
        if len(ports) == nodes:
            return [int(found) for found in ports]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    sockets = [socket.create_server((host, 0)) for _ in range(nodes)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _check_ports(host: str, ports: list[int]) -> None:
    for port in ports:
        if port > PORT_MAX:
            raise CommandError(f"there is no port {port}: begin with a lower one")
        try:
            socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
        except OSError as error:
            reason = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise CommandError(
                f"cannot listen on {host}:{port}: {reason}; the nodes need {len(ports)} ports from {ports[0]} on"
            ) from None


def _end_with_parent() -> None:
    """In the child: a session of its own, so that Ctrl-C comes through the parent, and an end when that is gone."""
    os.setsid()
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    except (OSError, AttributeError):
        return
