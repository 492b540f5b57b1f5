"""The node's part in its cluster: the metadata quorum, the controller on top of it, and the way to the other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from tidelog.controller.channel import CONTROL, ControllerChannel
from tidelog.controller.cluster_membership import ClusterMembership, ask_for_place
from tidelog.controller.core.brokers import decide_new_leader_epochs
from tidelog.controller.core.decision import Decision
from tidelog.controller.duties import BrokerDuties
from tidelog.controller.lifecycle import BrokerLifecycle, RegistrationRefused
from tidelog.controller.quorum_controller import QuorumController
from tidelog.controller.service import ControllerService
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import decode_topic_id
from tidelog.net.client.errors import RpcError
from tidelog.node.disk_room import DiskRoom
from tidelog.node.errors import NodeStartError
from tidelog.node.peers import Peers
from tidelog.raft.core.members import NO_MEMBERS, Member, MemberSet
from tidelog.raft.quorum import Quorum
from tidelog.raft.settings import QuorumSettings
from tidelog.runtime.clock import monotonic_s, wall_clock_ms

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.metadata.image import Endpoint, MetadataImage
    from tidelog.node.joining import Joined
    from tidelog.storage.log_directory import LogDirectory


ASK_SECONDS_MAX = 5.0
_FINAL = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    }
)
"""Answers that say why a node is not taken in."""


class Cluster:
    """Made, then `connect`ed to the node's handlers, then started. All methods belong to the event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        directory: LogDirectory,
        *,
        endpoints: Sequence[Endpoint],
        voters: MemberSet,
        joined: Joined | None,
        is_founder: bool,
        executor: Executor,
        give_up: Callable[[str], None],
    ) -> None:
        """`voters` when the configuration names them; `joined` when a member took this node in just now; `is_founder`
        when the configuration names nobody. `give_up` is called, with one line for people, when this node is not wanted
        any more, or cannot follow the others."""
        self._config = config
        self._directory = directory
        self._endpoints = endpoints
        self.runner = QuorumController(config, cluster_id=directory.cluster_id)
        configured = {member.node_id: (member.host, member.port) for member in voters}
        self.peers = Peers(config, lambda: self.runner.newest_image, configured)
        if joined is not None:
            self.peers.learn_addresses(joined.members)
        directory_id = decode_topic_id(directory.directory_id)
        own = next(each for each in endpoints if each.name == config.inter_node_listener_name)
        alone = MemberSet((Member(config.node_id, directory_id, own.host, own.port),))
        settings = QuorumSettings(
            node_id=config.node_id,
            directory_id=directory_id,
            cluster_id=directory.cluster_id,
            bootstrap=alone if is_founder else voters or NO_MEMBERS,
            election_timeout_ms=config.controller_quorum_election_timeout_ms,
            segment_bytes=config.metadata_log_segment_bytes,
            snapshot_after_bytes=config.metadata_log_max_record_bytes_between_snapshots,
            snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
        )
        self.quorum = Quorum(
            directory.path,
            settings,
            state_machine=self.runner,
            transport=self.peers,
            wall_clock_ms=wall_clock_ms,
            monotonic_s=monotonic_s,
            executor=executor,
            failed=self._metadata_failed,
        )
        self._give_up = give_up
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.runner.attach(self.quorum)
        self.duties = BrokerDuties(self.runner, monotonic_s=monotonic_s, is_gone=self.peers.is_gone)
        self.service = ControllerService(self.runner, self.duties)
        self.channel: ControllerChannel
        self.membership: ClusterMembership
        self._lifecycle: BrokerLifecycle | None = None
        self._is_started = False

    def connect(self) -> None:
        self.channel = ControllerChannel(self.runner, self.peers.pool)
        self.membership = ClusterMembership(self.service, self.channel, note_address=self.peers.note_address)
        self.service.reach_others_by(self.channel)

    # -- start ---------------------------------------------------------------------------------------------------------

    async def start(self) -> bool:
        """Joins the quorum; whether this node is all there is, and needs nobody to go on."""
        self._is_started = True
        image = await self.runner.start()
        others = set(image.brokers) - {self._config.node_id}
        members = {member.node_id for member in self.quorum.members} - {self._config.node_id}
        return self.runner.is_active and not others and not members

    async def register(
        self,
        *,
        alone: bool,
        collect_statistics: Callable[[], dict[str, Any]],
    ) -> MetadataImage:
        """Makes the node known to its cluster; returns the metadata to begin with."""
        lifecycle = self._lifecycle = BrokerLifecycle(
            self.service,
            self.channel,
            self.membership,
            collect_statistics=collect_statistics,
            give_up=self._give_up,
            ask_members=self._ask_members,
            is_short_of_room=DiskRoom(self._directory.path).is_short,
        )
        directory_id = decode_topic_id(self._directory.directory_id)
        if alone:
            await lifecycle.register_alone(self._endpoints, directory_id)
            if not self._directory.clean_shutdown:
                await self._begin_leader_epochs()
        else:
            try:
                await self._unless_failed(lifecycle.register(self._endpoints, directory_id))
            except RegistrationRefused as error:
                raise NodeStartError(str(error)) from None
        return self.runner.take_newest()

    async def _ask_members(self) -> BrokerError | None:
        """Why the others do not speak to this node, if one of them says so."""
        own_id = self._config.node_id
        own = next(each for each in self._endpoints if each.name == self._config.inter_node_listener_name)
        body = {
            "cluster_id": self._directory.cluster_id,
            "node_id": own_id,
            "directory_id": decode_topic_id(self._directory.directory_id).hex(),
            # One that lost its disk does not know that it was ever here; a member that was removed does.
            "is_new": self.quorum.status().log_end_offset == 0,
            "host": own.host,
            "port": own.port,
        }
        others = {member.node_id for member in self.quorum.members} | set(self.runner.newest_image.brokers)
        for node_id in sorted(others - {own_id}):
            try:
                answered = await ask_for_place(self.peers.pool.client(node_id, CONTROL), body, ASK_SECONDS_MAX)
            except (RpcError, BrokerError):
                continue
            if (code := answered.get("code")) in _FINAL:
                return BrokerError(ErrorCode(code), str(answered.get("error")))
        return None

    async def _begin_leader_epochs(self) -> None:
        """After a crash the partitions it leads begin a new leader epoch."""
        position = 0

        def decide(image: MetadataImage) -> Decision[int]:
            return decide_new_leader_epochs(image, self._config.node_id, position)

        while position >= 0:
            position = await self.service.submit(decide)

    async def begin_work(self) -> None:
        """The node can serve: returns when its cluster sends it clients."""
        assert self._lifecycle is not None, "register comes first"
        self._lifecycle.start()
        await self._unless_failed(self._lifecycle.ready())

    def _metadata_failed(self, reason: str) -> None:
        reason = f"{reason}; upgrade this node, or let it join again with an empty data directory"
        if not self._failed.done():
            self._failed.set_result(reason)
            self._give_up(reason)

    async def _unless_failed(self, work: Coroutine[Any, Any, object]) -> None:
        """What could wait for ever on a node that does not follow its cluster any more."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, self._failed), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise NodeStartError(self._failed.result())
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # -- stop ----------------------------------------------------------------------------------------------------------

    async def hand_over(self) -> None:
        if self._lifecycle is not None:
            await self._lifecycle.hand_over()

    async def stop(self) -> None:
        if self._lifecycle is not None:
            await self._lifecycle.stop()
        self.duties.stop()
        if self._is_started:
            await self.runner.stop()
        self.peers.pool.close()
