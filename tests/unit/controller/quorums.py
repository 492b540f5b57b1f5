"""Controllers for tests: on a quorum in memory, several nodes of one cluster, or on the real one and its disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Container, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, cast

from tidelog.config.broker import BrokerConfig
from tidelog.controller.channel import ControllerChannel
from tidelog.controller.core.brokers import Registration
from tidelog.controller.duties import BrokerDuties
from tidelog.controller.quorum_controller import QuorumController
from tidelog.controller.service import ControllerService
from tidelog.metadata.framing import decode_metadata_record, encode_metadata_record
from tidelog.metadata.image import Endpoint
from tidelog.net.client.pool import RpcPool
from tidelog.protocol.message import Message
from tidelog.raft.core.members import Member, MemberSet
from tidelog.raft.errors import LeadershipLost, NotLeader
from tidelog.raft.quorum import Quorum
from tidelog.raft.settings import QuorumSettings
from tidelog.raft.status import PeerStatus, QuorumStatus
from tidelog.raft.transport import Address
from tidelog.runtime.system import System

DIRECTORY_ID = b"d" * 16
ENDPOINT = Endpoint("PLAINTEXT", "127.0.0.1", 9092)


class MemoryCluster:
    """One log that all its quorums apply at once; the test names the leader."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.end_offset = 0
        self.term = 0
        self.leader_id = -1
        self.members = MemberSet()
        self.quorums: dict[int, MemoryQuorum] = {}
        self.is_stalled = False
        """Nothing is committed, as without a majority."""

    def elect(self, node_id: int) -> None:
        self.term += 1
        self.leader_id = node_id
        for quorum in self.quorums.values():
            quorum.state_machine.leader_changed(node_id, self.term, is_active=quorum.node_id == node_id)

    def commit(self, records: Sequence[Message]) -> int:
        values = [encode_metadata_record(record) for record in records]
        self.batches.append(values)
        self.end_offset += len(values)
        for quorum in self.quorums.values():
            quorum.state_machine.apply([decode_metadata_record(v) for v in values], self.end_offset, self.term)
        return self.end_offset


class MemoryQuorum:
    def __init__(self, cluster: MemoryCluster, state_machine: QuorumController) -> None:
        self.cluster = cluster
        self.state_machine = state_machine
        self.node_id = state_machine.config.node_id

    async def start(self) -> None:
        offset = 0
        for values in self.cluster.batches:
            offset += len(values)
            self.state_machine.apply([decode_metadata_record(value) for value in values], offset, self.cluster.term)
        self.cluster.quorums[self.node_id] = self
        if self.cluster.leader_id >= 0:
            self.state_machine.leader_changed(self.cluster.leader_id, self.cluster.term, is_active=False)

    async def stop(self) -> None:
        self.cluster.quorums.pop(self.node_id, None)
        self.state_machine.leader_changed(-1, self.cluster.term, is_active=False)

    @property
    def members(self) -> MemberSet:
        return self.cluster.members

    @property
    def commands(self) -> MemoryQuorum:
        return self

    async def propose(self, records: Sequence[Message]) -> int:
        if self.cluster.leader_id != self.node_id:
            raise NotLeader(self.cluster.leader_id)
        term = self.cluster.term
        while self.cluster.is_stalled:
            await asyncio.sleep(0.001)
            if self.cluster.term != term:
                raise LeadershipLost(self.cluster.leader_id)
        return self.cluster.commit(records)

    async def add_learner(self, member: Member) -> None:
        self.cluster.members = self.cluster.members.with_learner(member)

    async def add_voter(self, member: Member, *, timeout_s: float = 30.0) -> None:
        self.cluster.members = self.cluster.members.with_voter(member)

    async def remove_member(self, node_id: int) -> None:
        self.cluster.members = self.cluster.members.without(node_id)

    def status(self) -> QuorumStatus:
        end = self.cluster.end_offset
        return QuorumStatus(
            node_id=self.node_id,
            role="leader" if self.cluster.leader_id == self.node_id else "follower",
            term=self.cluster.term,
            leader_id=self.cluster.leader_id,
            commit_offset=end,
            log_start_offset=0,
            log_end_offset=end,
            snapshot_offset=0,
            members_offset=-1,
            peers=tuple(
                PeerStatus(
                    member=member,
                    is_voter=self.members.is_voter(member.node_id),
                    match_offset=end,
                    lag=0,
                    last_contact_ms=0,
                    last_caught_up_ms=0,
                )
                for member in self.members
            ),
        )


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def no_way_to_others(controller: QuorumController) -> ControllerChannel:
    return ControllerChannel(controller, RpcPool(lambda _: None, client_id="test"))


async def memory_node(
    cluster: MemoryCluster,
    config: BrokerConfig,
    clock: Clock | None = None,
    cluster_id: str = "cluster",
    gone: Container[int] = (),
) -> ControllerService:
    """A node that follows the cluster and publishes; it is not registered. Ports of nodes in `gone` are closed."""
    controller = QuorumController(config, cluster_id=cluster_id)
    controller.attach(cast(Quorum, MemoryQuorum(cluster, controller)))

    async def is_gone(node_id: int) -> bool:
        return node_id in gone

    duties = BrokerDuties(controller, monotonic_s=clock or Clock(), is_gone=is_gone)
    service = ControllerService(controller, duties, no_way_to_others(controller))
    await controller.start()
    controller.publish()
    return service


async def sole_node(config: BrokerConfig, cluster_id: str = "cluster") -> ControllerService:
    """A cluster of one in memory, registered and at work."""
    cluster = MemoryCluster()
    service = await memory_node(cluster, config, cluster_id=cluster_id)
    cluster.elect(config.node_id)
    await register(service, fenced=False)
    return service


def registration(node_id: int, incarnation: bytes = b"", port: int = 9092) -> Registration:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port)
    return Registration(node_id, incarnation or bytes([node_id]) * 16, (endpoint,), (bytes([node_id]) * 16,))


async def register(service: ControllerService, *, fenced: bool) -> int:
    config = service.quorum_controller.config
    own = Registration(config.node_id, os.urandom(16), (ENDPOINT,), (DIRECTORY_ID,), rack=config.broker_rack)
    service.broker_epoch = await service.duties.register(own, fenced=fenced, is_own=True)
    return service.broker_epoch


class NoPeers:
    """The transport of a cluster of one."""

    async def request(self, node_id: int, api_key: int, version: int, body: bytes) -> bytes:
        raise ConnectionError("there is nobody else")

    async def is_gone(self, node_id: int) -> bool:
        return False

    def update_peers(self, addresses: Mapping[int, Address]) -> None:
        pass


def disk_quorum(path: Path, controller: QuorumController, executor: Executor | None = None) -> Quorum:
    """The real quorum of one node, in a directory."""
    config = controller.config
    settings = QuorumSettings(
        node_id=config.node_id,
        directory_id=DIRECTORY_ID,
        cluster_id=controller.image.cluster_id,
        bootstrap=MemberSet((Member(config.node_id, DIRECTORY_ID, "127.0.0.1", 9092),)),
        segment_bytes=config.metadata_log_segment_bytes,
        snapshot_after_bytes=config.metadata_log_max_record_bytes_between_snapshots,
        snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
    )
    return Quorum(
        path,
        settings,
        state_machine=controller,
        transport=NoPeers(),
        system=System(wall_clock_ms=lambda: 1_000, monotonic_s=asyncio.get_running_loop().time),
        executor=executor,
    )


async def disk_node(path: Path, **settings: Any) -> ControllerService:
    """A cluster of one on a real quorum, not registered."""
    controller = QuorumController(BrokerConfig(**settings), cluster_id="test")
    controller.attach(disk_quorum(path, controller))
    duties = BrokerDuties(controller, monotonic_s=asyncio.get_running_loop().time)
    service = ControllerService(controller, duties, no_way_to_others(controller))
    await controller.start()
    controller.take_newest()
    controller.publish()
    return service


async def stop(service: ControllerService) -> None:
    service.duties.stop()
    await service.quorum_controller.stop()
