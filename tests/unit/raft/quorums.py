"""Real quorums in one event loop: real disks and shells, and a transport that hands bodies over by a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests import waiting
from tests.unit.storage.faulty_disk import FaultyDisk

from tidelog.metadata.framing import UnreadableMetadata
from tidelog.protocol.generated.topic_record import TopicRecord
from tidelog.protocol.message import Message
from tidelog.raft.core.members import Member, MemberSet
from tidelog.raft.errors import NotLeader
from tidelog.raft.quorum import Quorum
from tidelog.raft.settings import QuorumSettings
from tidelog.raft.transport import Address

T = TypeVar("T")
DEADLINE_S = 60.0
CLUSTER_ID = "cluster-of-the-tests"


class Names:
    """A state machine: the names of the topics, in order. One name it may not understand."""

    def __init__(self, refuses: str | None = None) -> None:
        self.refuses = refuses
        self.names: list[str] = []
        self.end_offset = 0
        self.snapshots = 0
        self.leaders: list[tuple[int, int, bool]] = []

    def apply(self, records: Sequence[Message], end_offset: int, term: int) -> None:
        assert end_offset > self.end_offset
        if self.refuses is not None and any(name == self.refuses for name in _names(records)):
            raise UnreadableMetadata(f"{self.refuses} is not understood")
        self.names += _names(records)
        self.end_offset = end_offset

    def load_snapshot(self, records: Iterable[Message], end_offset: int, term: int) -> None:
        self.names = _names(records)
        self.end_offset = end_offset
        self.snapshots += 1

    def begin_snapshot(self) -> Callable[[], Iterable[Message]]:
        held = list(self.names)
        return lambda: (topic(name) for name in held)

    def leader_changed(self, leader_id: int, term: int, *, is_active: bool) -> None:
        self.leaders.append((leader_id, term, is_active))


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=bytes(16))


def _names(records: Iterable[Message]) -> list[str]:
    return [record.name for record in records if isinstance(record, TopicRecord)]


class Node:
    def __init__(self, quorum: Quorum, state: Names, settings: QuorumSettings, failures: list[str]) -> None:
        self.quorum = quorum
        self.failures = failures
        self.state = state
        self.settings = settings


class Link:
    """The transport of one node: it reaches nodes that are up, while its own is up."""

    def __init__(self, nodes: Mapping[int, Node], own_id: int) -> None:
        self._nodes = nodes
        self._own_id = own_id

    async def request(self, node_id: int, api_key: int, version: int, body: bytes) -> bytes:
        await asyncio.sleep(0)
        if node_id not in self._nodes or self._own_id not in self._nodes:
            raise ConnectionError(f"there is no way from {self._own_id} to {node_id}")
        answer = await self._nodes[node_id].quorum.receive(body)
        if self._own_id not in self._nodes:
            raise ConnectionError(f"there is no way back from {node_id}")
        return answer

    async def is_gone(self, node_id: int) -> bool:
        return node_id not in self._nodes

    def update_peers(self, addresses: Mapping[int, Address]) -> None:
        pass


class Cluster:
    def __init__(self, path: Path, **settings: int) -> None:
        self.path = path
        self.nodes: dict[int, Node] = {}
        self._settings = settings
        self.disk = FaultyDisk()
        """Of all nodes."""

    async def start(
        self,
        node_id: int,
        bootstrap: MemberSet,
        *,
        directory_id: bytes | None = None,
        cluster_id: str = CLUSTER_ID,
        folder: str | None = None,
        refuses: str | None = None,
    ) -> Node:
        timings = {"election_timeout_ms": 200, "heartbeat_interval_ms": 40}
        settings = QuorumSettings(
            node_id=node_id,
            directory_id=directory_id or bytes([node_id]) * 16,
            cluster_id=cluster_id,
            bootstrap=bootstrap,
            **{**timings, **self._settings},
        )
        state = Names(refuses)
        failures: list[str] = []
        quorum = Quorum(
            self.path / (folder or str(node_id)),
            settings,
            state_machine=state,
            transport=Link(self.nodes, node_id),
            system=self.disk.system,
            failed=failures.append,
        )
        await quorum.start()
        node = self.nodes[node_id] = Node(quorum, state, settings, failures)
        return node

    async def stop(self, node_id: int) -> None:
        await self.nodes[node_id].quorum.stop()
        del self.nodes[node_id]

    async def stop_all(self) -> None:
        for node in self.nodes.values():
            await node.quorum.stop()

    async def on_leader(self, command: Callable[[Quorum], Awaitable[T]]) -> T:
        """The leader carries it out; a busy machine may move the leadership at any time."""
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            leader = await self.leader()
            try:
                return await command(leader.quorum)
            except NotLeader:
                assert time.monotonic() < deadline_s, "nobody leads for long enough"
                await asyncio.sleep(0.01)

    async def propose(self, *names: str) -> None:
        """Each by itself, at the same time."""
        await asyncio.gather(*(self.on_leader(lambda quorum, n=name: quorum.propose([topic(n)])) for name in names))

    async def leader(self) -> Node:
        def find() -> Node | None:
            return next((node for node in self.nodes.values() if node.quorum.is_leader), None)

        await eventually(lambda: find() is not None)
        node = find()
        assert node is not None
        return node


def any_of(*node_ids: int) -> MemberSet:
    """Voters named by their ids alone."""
    return MemberSet(tuple(Member(node_id) for node_id in node_ids))


async def eventually(condition: Callable[[], bool]) -> None:
    await waiting.eventually(condition, "a state of the quorum", DEADLINE_S, interval_s=0.005)
