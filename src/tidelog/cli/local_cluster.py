"""Several nodes on this machine from one command: started, watched, started again when they die, stopped together."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count, islice
from pathlib import Path
from types import FrameType

from tidelog.cli.errors import EXIT_REMOVED, CommandError
from tidelog.cli.node_arguments import NodeArguments
from tidelog.cli.output import note
from tidelog.cli.wire import BrokerConnection
from tidelog.node.local_layout import (
    Plan,
    adopt_single,
    check_usable,
    find_single,
    has_metadata,
    list_members,
    node_directory,
    read_plan,
    remove_unused,
    set_aside,
    write_plan,
)
from tidelog.protocol.generated.describe_cluster import DescribeClusterRequest
from tidelog.storage.log_directory_identity import DirectoryRefused, new_kafka_uuid

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 35.0
"""Above what a node takes for itself (`serve.STOP_SECONDS_MAX`)."""
POLL_SECONDS = 0.1
RESTART_SECONDS_MIN = 0.5
RESTART_SECONDS_MAX = 30.0
VOTERS_MAX = 3
PORT_MAX = 65535

_PR_SET_PDEATHSIG = 1


class _NodeRemoved(Exception):
    """The cluster does not know the node any more; its number is the argument."""


class StartCalledOff(Exception):
    """A signal came before all nodes were ready; those that ran are stopped."""


class _Signals:
    """Those that came so far."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        self.count += 1

    def require_none(self) -> None:
        if self.count:
            raise StartCalledOff


class _LocalNode:
    def __init__(self, node_id: int, command: Callable[[int], list[str]]) -> None:
        """`command` is called at every start: the arguments of a node depend on the data it has."""
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
            self._command(self.node_id), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent
        )

    def has_output(self, wait_s: float) -> bool:
        """The ready line, or the end of the process."""
        assert self.process is not None
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], wait_s)
        return bool(readable)

    def read_ready_line(self, deadline_s: float) -> str:
        """CommandError where it does not come in time."""
        readable = self.has_output(max(0.0, deadline_s - time.monotonic()))
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode(errors="replace").strip() if readable else ""
        if not line:
            # Its output ends a moment before the process does.
            if readable and self.process.wait() == EXIT_REMOVED:
                raise _NodeRemoved(self.node_id)
            why = f"ended with code {self.process.wait()}" if readable else "was not ready in time"
            raise CommandError(f"node {self.node_id} {why}; its reason stands above")
        return line

    @property
    def is_removed(self) -> bool:
        return self.process is not None and self.process.poll() == EXIT_REMOVED

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
        arguments: NodeArguments | None = None,
        voters_max: int = VOTERS_MAX,
    ) -> None:
        """Ports are consecutive from `port` on, or free ones for 0. `arguments` are added to each `tidelog serve`.

        The first nodes are voters of the metadata quorum, an odd number up to `voters_max`; the others join them.
        Nodes that have data go on with it, more than there were join them, fewer are refused.
        """
        self._data = data
        self._host = host
        self._arguments = arguments or NodeArguments()
        try:
            check_usable(data)
            single = find_single(data)
            self._known = {single.node_id: single} if single is not None else list_members(data)
            plan = read_plan(data)
        except DirectoryRefused as error:
            raise CommandError(str(error)) from None
        if len(self._known) > nodes:
            raise CommandError(_too_few(data, list(self._known)))
        unused = (number for number in count(first_id) if number not in self._known)
        node_ids = sorted([*self._known, *islice(unused, nodes - len(self._known))])
        self._addresses = _choose_ports(plan, host, port, node_ids)
        self.ports = [self._addresses[node_id] for node_id in node_ids]
        founders = tuple(node_ids[: min(nodes if nodes % 2 else nodes - 1, voters_max)])
        if self._known and (plan is None or single is not None):
            plan = Plan("", tuple(self._known) if len(self._known) == 1 else (), {}, is_formed=True)
        elif plan is None or not self._known:
            plan = Plan(new_kafka_uuid(), founders, {}, is_formed=False)
        self._single = single
        self._plan = plan._replace(ports=self._addresses)
        self.nodes = [_LocalNode(node_id, self._command) for node_id in node_ids]
        self._signals = _Signals()

    def _command(self, node_id: int) -> list[str]:
        command = [sys.executable, "-m", "tidelog.cli.main", "serve", "--listen", self._address(node_id)]
        command += ["--data", str(node_directory(self._data, node_id)), "--node-id", str(node_id)]
        return command + self._place(node_id) + self._arguments.of(sorted(self._addresses).index(node_id))

    def _place(self, node_id: int) -> list[str]:
        """How a node comes to its cluster, by the data there is now."""
        begun = [node.node_id for node in self.nodes if has_metadata(node_directory(self._data, node.node_id))]
        founders, is_formed = self._plan.founders, self._plan.is_formed
        if node_id in begun:
            # Its metadata names the voters; this says where they are now, perhaps at other ports.
            voters = begun if is_formed else sorted({*begun, *founders})
            return [] if len(voters) == 1 else ["-o", f"controller.quorum.voters={self._voters(voters)}"]
        others = [other for other in begun if other != node_id]
        if node_id in founders and (len(founders) > 1 or not others):
            identity = [] if not self._plan.cluster_id else ["-o", f"cluster.id={self._plan.cluster_id}"]
            named = [] if len(founders) == 1 else ["-o", f"controller.quorum.voters={self._voters(founders)}"]
            return identity + named
        return ["--join", ",".join(map(self._address, others or founders))]

    def _address(self, node_id: int) -> str:
        return f"{self._host}:{self._addresses[node_id]}"

    def _voters(self, node_ids: Sequence[int]) -> str:
        return ",".join(f"{node_id}@{self._address(node_id)}" for node_id in node_ids)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self._host}:{port}" for port in self.ports)

    @property
    def pids(self) -> dict[int, int]:
        return {node.node_id: node.process.pid for node in self.nodes if node.process is not None}

    @property
    def ended(self) -> list[int]:
        """The nodes whose process is not there any more."""
        return [node.node_id for node in self.nodes if node.process is not None and node.process.poll() is not None]

    def start(self) -> None:
        """Returns when every node is ready; CommandError or StartCalledOff, with all of them stopped, when not."""
        # What all nodes would complain about is said once, before there are any.
        _check_ports(self._host, self.ports)
        missing = [path for path in (self._data, *self._data.parents) if not path.exists()]
        try:
            self._data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"the data directory {self._data} cannot be made: {error.strerror}") from None
        try:
            write_plan(self._data, self._plan)
            if self._single is not None:
                adopt_single(self._data, self._single.node_id)
        except (OSError, DirectoryRefused) as error:
            raise CommandError(str(error)) from None
        try:
            self._start(self.nodes)
            _wait_for_one_cluster(self._host, self._addresses, self._signals)
            self._plan = self._plan._replace(is_formed=True)
            write_plan(self._data, self._plan)
        except _NodeRemoved as removed:
            self.stop()
            kept = set_aside(self._data, removed.args[0])
            raise CommandError(
                f"node {removed.args[0]} was removed from the cluster; its data is kept in {kept}: start again"
            ) from None
        except BaseException:
            self.stop()
            remove_unused(self._data, missing)
            raise

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals.add()
        if self._signals.count > 1:
            for node in self.nodes:
                if node.process is not None:
                    node.process.kill()

    def catch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def watch(self) -> None:
        """Until a signal comes."""
        while not self._signals.count:
            time.sleep(POLL_SECONDS)
            for node in list(self.nodes):
                if node.is_removed:
                    self.nodes.remove(node)
                    kept = set_aside(self._data, node.node_id)
                    note(f"node {node.node_id} was removed from the cluster; its data is kept in {kept}")
                else:
                    node.maybe_restart()

    def send_signal(self, node_id: int, number: int) -> None:
        """To one node, to see what happens then."""
        node = next(node for node in self.nodes if node.node_id == node_id)
        assert node.process is not None, "the node was started"
        node.process.send_signal(number)
        if number == signal.SIGKILL:
            node.process.wait()

    def start_again(self, *node_ids: int) -> None:
        """Nodes that ended; returns when all of them are ready."""
        self._start([node for node in self.nodes if node.node_id in node_ids])

    def _start(self, nodes: list[_LocalNode]) -> None:
        for node in nodes:
            node.start()
        deadline_s = time.monotonic() + READY_SECONDS_MAX
        for node in nodes:
            # A signal does not end a wait by itself (PEP 475), so the wait is taken in small steps.
            while not node.has_output(POLL_SECONDS) and time.monotonic() < deadline_s:
                self._signals.require_none()
            node.read_ready_line(deadline_s)

    def stop(self) -> int:
        """All of them at once; those that do not end in time are killed."""
        living = [node.process for node in self.nodes if node.process is not None and node.process.poll() is None]
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
        for node in self.nodes:
            if node.process is not None and node.process.stdout is not None:
                node.process.stdout.close()
        return failed


def _choose_ports(plan: Plan | None, host: str, port: int, node_ids: list[int]) -> dict[int, int]:
    if port:
        return {node_id: port + index for index, node_id in enumerate(node_ids)}
    # Clients know nodes by their addresses: what was started once is started there again.
    known = {} if plan is None else {node_id: plan.ports[node_id] for node_id in node_ids if node_id in plan.ports}
    sockets = {node_id: socket.create_server((host, 0)) for node_id in node_ids if node_id not in known}
    known |= {node_id: int(each.getsockname()[1]) for node_id, each in sockets.items()}
    for each in sockets.values():
        each.close()
    return known


def _too_few(data: Path, members: list[int]) -> str:
    last = members[-1]
    return (
        f"the cluster in {data} has {len(members)} nodes ({', '.join(map(str, members))}): start it with --nodes "
        f"{len(members)}; for fewer, run `tidelog cluster drain {last}` and `tidelog cluster remove {last}` first"
    )


def _wait_for_one_cluster(host: str, ports: dict[int, int], signals: _Signals) -> None:
    """Until every node says that all of them are alive in one cluster that has a leader; CommandError when not."""
    deadline_s = time.monotonic() + READY_SECONDS_MAX
    while problem := _find_apart(host, ports):
        signals.require_none()
        if time.monotonic() >= deadline_s:
            raise CommandError(f"the nodes are not one cluster: {problem}")
        time.sleep(POLL_SECONDS / 2)


def _find_apart(host: str, ports: dict[int, int]) -> str:
    cluster_ids = set()
    for node_id, port in ports.items():
        try:
            with BrokerConnection(host, port) as connection:
                described = connection.call(DescribeClusterRequest(endpoint_type=1), 2)
        except CommandError as error:
            return str(error)
        cluster_ids.add(described.cluster_id)
        missing = set(ports) - {broker.broker_id for broker in described.brokers}
        if missing or described.controller_id < 0:
            return f"node {node_id} sees no node {min(missing)}" if missing else f"node {node_id} knows no controller"
    return "" if len(cluster_ids) == 1 else f"they belong to {' and '.join(sorted(cluster_ids))}"


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
