"""A cluster of real processes on this machine that a test can break: nodes are killed, paused, cut off and come back.

    with tidelog.testing.Cluster(nodes=3) as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.leader_of("orders").kill()

Every node is reached through relays in the test process (`relay.py`): one for clients, whose address the node
advertises, and one for each other node, which knows it by that address only (`controller.quorum.voters` differs from
node to node). So the way between any two nodes can be cut without root and without touching the machine's network.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.node.errors import NodeStartError
from tidelog.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.storage.log_directory_identity import new_kafka_uuid
from tidelog.testing.broker import setting_text
from tidelog.testing.cluster_node import ClusterNode
from tidelog.testing.cluster_view import ClusterView, ask, find_controller, look
from tidelog.testing.loop_thread import LoopThread
from tidelog.testing.relay import HOST, Relay

NODES_MAX = 9
REPLICAS_MAX = 3
WAIT_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.05
CREATE_TOPICS_VERSION = 7
CLIENTS = 0
"""Beside the numbers of nodes: where the connections of clients come from."""


def default_settings(nodes: int) -> dict[str, str]:
    """Copies on up to three nodes, two of which must have a record; small internal topics; groups start at once."""
    replicas = min(nodes, REPLICAS_MAX)
    in_sync = str(min(replicas, 2))
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": in_sync,
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "replica.lag.time.max.ms": "4000",
    }


class Cluster:
    """Started by `with` or `start`. `stop` ends every process and frees every port; so does the end of this process."""

    def __init__(
        self, nodes: int = 3, settings: Mapping[str, Any] | None = None, directory: str | Path | None = None
    ) -> None:
        """`settings` hold for every node, by Kafka's names. `directory` keeps data and logs of the nodes, and must be
        new or empty; without it both are temporary."""
        if not 1 <= nodes <= NODES_MAX:
            raise ValueError(f"a cluster has 1 to {NODES_MAX} nodes, not {nodes}")
        self._count = nodes
        given = {name: setting_text(value) for name, value in (settings or {}).items()}
        self._settings = {**default_settings(nodes), "tidelog.log.level": "info", **given}
        self._kept_directory = None if directory is None else Path(directory)
        self._temporary: Path | None = None
        self._thread = LoopThread("tidelog-cluster")
        self._cluster_id = ""
        self._relays: dict[tuple[int, int], Relay] = {}
        """By where a connection comes from (a node, or CLIENTS) and the node it goes to."""
        self._cut: set[tuple[int, int]] = set()
        self.nodes: list[ClusterNode] = []
        """In the order of their numbers, which count from 1."""

    @property
    def bootstrap_servers(self) -> str:
        """What clients call `bootstrap.servers`: the addresses of all nodes, running or not."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    bootstrap = bootstrap_servers

    @property
    def directory(self) -> Path:
        """Where `node-1.log` and the data directory `node-1` are, and those of the others."""
        directory = self._kept_directory or self._temporary
        if directory is None:
            raise RuntimeError("the cluster was not started yet")
        return directory

    @property
    def is_running(self) -> bool:
        return self._thread.is_running

    def node(self, node_id: int) -> ClusterNode:
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise ValueError(f"there is no node {node_id}: the nodes are 1 to {self._count}")

    # -- start and stop ------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Returns when every node is ready and knows all others. NodeStartError says which one is not, and why."""
        if self._thread.is_running:
            raise RuntimeError("the cluster is running already")
        self._prepare_directory()
        self._cluster_id = new_kafka_uuid()
        # uvloop does not close while a transport is on its way out.
        self._thread.start("asyncio")
        try:
            self._thread.call(self._make_nodes)
            self.start_nodes(*self.nodes)
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def start_nodes(self, *nodes: ClusterNode) -> None:
        """All at once, and returns when all are ready: a majority that is down can only come back together."""

        async def start() -> None:
            await asyncio.gather(*(node.start_process() for node in nodes))

        self._thread.call(start)

    def stop(self) -> None:
        """Stops all nodes and removes temporary data; nothing happens when it is stopped already."""
        if self._thread.is_running:
            # No data is needed after this, and no node is left to hand over to.
            for node in self.nodes:
                node.kill()
            self._thread.call(self._close_relays)
            self._thread.stop()
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        self.nodes = []

    def restore(self) -> None:
        """Undoes what was done to the cluster: no cuts, every node runs and is in sync."""
        self.heal()
        for node in self.nodes:
            if node.is_running and node.is_paused:
                node.resume()
        self.start_nodes(*(node for node in self.nodes if not node.is_running))
        self.wait_until_ready()
        self.wait_until_in_sync()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.describe_logs())
        self.stop()

    # -- faults of the network -----------------------------------------------------------------------------------------

    def cut(self, one: ClusterNode, other: ClusterNode | None = None) -> None:
        """Cuts the network between two nodes, or with one alone everything to and from it, clients included.

        Connections stay open and fall silent, as when packets are lost. Cuts add up until `heal`.
        """
        if other is one:
            raise ValueError(f"node {one.node_id} cannot be cut off from itself")
        ends = {node.node_id for node in self.nodes} | {CLIENTS} if other is None else {other.node_id}
        pairs = {(one.node_id, end) for end in ends} | {(end, one.node_id) for end in ends}
        self._cut |= pairs & self._relays.keys()
        self._thread.call(self._apply_cuts)

    def heal(self) -> None:
        """Takes back every cut. What was under way when it was made arrives now."""
        self._cut.clear()
        self._thread.call(self._apply_cuts)

    # -- state and waits -----------------------------------------------------------------------------------------------

    @property
    def controller(self) -> ClusterNode:
        """The node that leads the metadata quorum; waits for one."""
        found: list[int] = []

        def is_there() -> str:
            number = self._thread.call(lambda: find_controller(self._answering()))
            found[:] = [] if number is None else [number]
            return "" if found else "no node is the controller"

        self._wait(is_there, WAIT_SECONDS_MAX)
        return self.node(found[0])

    def leader_of(
        self,
        topic: str,
        partition: int = 0,
        *,
        other_than: ClusterNode | None = None,
        timeout_s: float = WAIT_SECONDS_MAX,
    ) -> ClusterNode:
        """The node that leads the partition; waits until one does that runs, and is not `other_than`."""
        found: list[ClusterNode] = []

        def is_there() -> str:
            known = self._look().partitions.get((topic, partition))
            if known is None:
                return f"there is no partition {topic}-{partition}"
            if known.leader_id < 0 or not (leader := self.node(known.leader_id)).is_running:
                return f"{topic}-{partition} has no leader"
            if leader is other_than:
                return f"{topic}-{partition} is still led by node {leader.node_id}"
            found[:] = [leader]
            return ""

        self._wait(is_there, timeout_s)
        return found[0]

    def followers_of(self, topic: str, partition: int = 0) -> list[ClusterNode]:
        """The nodes that have the other replicas."""
        leader = self.leader_of(topic, partition)
        replicas = self._look().partitions[topic, partition].replicas
        return [self.node(node_id) for node_id in replicas if node_id != leader.node_id]

    def wait_until_ready(self, timeout_s: float = WAIT_SECONDS_MAX) -> None:
        """Until all nodes that run, neither paused nor cut off, know each other and the leader of every partition."""

        def is_ready() -> str:
            view = self._look()
            for one in self._reachable():
                if one.node_id not in view.live:
                    return f"node {one.node_id} does not answer"
                for other in self._reachable():
                    if other.node_id not in view.live[one.node_id]:
                        return f"node {one.node_id} does not know node {other.node_id}"
                if not view.knows_all(one.node_id):
                    return f"node {one.node_id} does not know all leaders"
            for (topic, number), known in view.partitions.items():
                if known.leader_id < 0:
                    return f"{topic}-{number} has no leader"
            return ""

        self._wait(is_ready, timeout_s)

    def wait_until_in_sync(self, topic: str | None = None, timeout_s: float = WAIT_SECONDS_MAX) -> None:
        """Until every replica of the topic, or of all topics, is in sync. Fails while a node with a replica is away."""

        def is_in_sync() -> str:
            reachable = {node.node_id for node in self._reachable()}
            known = self._look().partitions
            if topic is not None and not any(name == topic for name, _ in known):
                return f"there is no topic {topic}"
            problems = []
            for (name, number), partition in sorted(known.items()):
                missing = set(partition.replicas) - (set(partition.in_sync) & reachable)
                if missing and topic in (None, name):
                    problems.append(f"{name}-{number}: node {', '.join(map(str, sorted(missing)))} is not in sync")
            return "; ".join(problems)

        self._wait(is_in_sync, timeout_s)

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replicas: int | None = None,
        configs: Mapping[str, Any] | None = None,
    ) -> str:
        """Makes a topic, waits until it can be written to, returns its name. BrokerError as a client would get it."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if partitions is None else partitions,
            replication_factor=-1 if replicas is None else replicas,
            configs=[
                CreatableTopicConfig(name=key, value=setting_text(value)) for key, value in (configs or {}).items()
            ],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(WAIT_SECONDS_MAX * 1000))
        node = self.controller
        answer = self._thread.call(
            lambda: ask(node, request, CreateTopicsResponse, CREATE_TOPICS_VERSION, WAIT_SECONDS_MAX)
        )
        if answer is None:
            raise TimeoutError(f"node {node.node_id} did not say whether it made the topic {name}")
        [result] = answer.topics
        if result.error_code:
            code = ErrorCode(result.error_code)
            raise BrokerError(code, result.error_message or code.message)
        self.leader_of(name)
        self.wait_until_ready()
        return name

    def describe_logs(self) -> str:
        """The state of every node and the last lines of its log, for the report of a test that failed."""
        return "\n".join(f"{node!r} {node.log_path}\n{node.log_tail()}" for node in self.nodes)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _prepare_directory(self) -> None:
        if self._kept_directory is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="tidelog-cluster-"))
            return
        self._kept_directory.mkdir(parents=True, exist_ok=True)
        if any(self._kept_directory.iterdir()):
            raise NodeStartError(f"the directory {self._kept_directory} is not empty: name a new one")

    async def _make_nodes(self) -> None:
        numbers = range(1, self._count + 1)
        self._cut.clear()
        self._relays = {
            (source, target): Relay() for target in numbers for source in (CLIENTS, *numbers) if source != target
        }
        self.nodes = [
            ClusterNode(
                number,
                arguments=self._arguments_of(number),
                directory=self.directory,
                thread=self._thread,
                relays=[self._relays[source, number] for source in (CLIENTS, *numbers) if source != number],
            )
            for number in numbers
        ]

    def _arguments_of(self, number: int) -> Callable[[int], list[str]]:
        def address(source: int, target: int) -> str:
            return f"{HOST}:{self._relays[source, target].port}"

        voters = [
            f"{other}@{address(CLIENTS if other == number else number, other)}" for other in range(1, self._count + 1)
        ]
        settings = {
            "cluster.id": self._cluster_id,
            "tidelog.quorum.voters.max": str(self._count),
            **({"controller.quorum.voters": ",".join(voters)} if self._count > 1 else {}),
            **self._settings,
        }
        options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
        data = str(self.directory / f"node-{number}")
        fixed = ["--node-id", str(number), "--data", data, "--advertise", address(CLIENTS, number), *options]
        return lambda port: ["--listen", f"{HOST}:{port}", *fixed]

    async def _apply_cuts(self) -> None:
        for ends, relay in self._relays.items():
            await (relay.cut() if ends in self._cut else relay.heal())

    async def _close_relays(self) -> None:
        await asyncio.gather(*(relay.close() for relay in self._relays.values()))
        self._relays = {}

    def _answering(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.is_running and not node.is_paused]

    def _reachable(self) -> list[ClusterNode]:
        return [node for node in self._answering() if (CLIENTS, node.node_id) not in self._cut]

    def _look(self) -> ClusterView:
        return self._thread.call(lambda: look(self._answering()))

    def _wait(self, problem: Callable[[], str], timeout_s: float) -> None:
        """Until there is none; TimeoutError with the last one."""
        if not self._thread.is_running:
            raise RuntimeError("the cluster is not running")
        deadline_s = time.monotonic() + timeout_s
        while found := problem():
            if time.monotonic() >= deadline_s:
                states = ", ".join(f"node {node.node_id} {node.state}" for node in self.nodes)
                raise TimeoutError(f"after {timeout_s:g} s: {found} ({states})")
            time.sleep(LOOK_SECONDS)
