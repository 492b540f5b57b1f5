"""The node's part in its cluster: the metadata quorum, the controller on top of it, and the way to the other nodes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.controller.channel import CONTROL, ControllerChannel
from tidelog.controller.cluster_membership import ClusterMembership, ask_for_place
from tidelog.controller.duties import BrokerDuties
from tidelog.controller.quorum_controller import QuorumController
from tidelog.controller.service import ControllerService
from tidelog.controller.session_keys import SessionKeyMaker
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.value import Value
from tidelog.net.client.errors import RpcError
from tidelog.node.closing import Closing, Step
from tidelog.node.errors import NodeStartError
from tidelog.node.peers import Peers
from tidelog.raft.core.members import NO_MEMBERS, Member, MemberSet
from tidelog.raft.quorum import Quorum
from tidelog.raft.settings import QuorumSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor

    from tidelog.node.environment import Environment
    from tidelog.node.site import Site
    from tidelog.node.way_in import WayIn

ASK_SECONDS_MAX = 5.0
_FINAL = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    }
)
"""Answers that say why a node is not taken in."""


class MetadataFailure:
    """Whether this node cannot follow the metadata any more, and why."""

    def __init__(self, give_up: Callable[[str], None]) -> None:
        self._give_up = give_up
        self._reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def note(self, reason: str) -> None:
        reason = f"{reason}; upgrade this node, or let it join again with an empty data directory"
        if not self._reason.done():
            self._reason.set_result(reason)
            self._give_up(reason)

    async def run_unless_failed(self, work: Coroutine[Any, Any, object]) -> None:
        """Does the work, which could wait for ever on a node that does not follow its cluster; NodeStartError then."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, self._reason), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise NodeStartError(self._reason.result())
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Cluster(Value):
    """Made, but not started: the quorum takes part after `join_quorum`."""

    controller: QuorumController
    quorum: Quorum
    peers: Peers
    duties: BrokerDuties
    channel: ControllerChannel
    """The way to whichever node is the controller."""
    service: ControllerService
    membership: ClusterMembership
    failure: MetadataFailure
    session_keys: SessionKeyMaker


def open_cluster(
    site: Site,
    way_in: WayIn,
    environment: Environment,
    workers: Executor,
    give_up: Callable[[str], None],
    closing: Closing,
) -> Cluster:
    """`give_up` is called, with one line for people, when this node is not wanted any more, or cannot follow the
    others."""
    config, system = site.config, environment.system
    cluster_id = site.directory.cluster_id
    controller = QuorumController(config, cluster_id=cluster_id)
    configured = {member.node_id: (member.host, member.port) for member in way_in.voters}
    peers = Peers(config, lambda: controller.newest_image, configured, environment.network)
    closing.note(Step.CLUSTER, peers.pool.close)
    peers.learn_addresses(way_in.members)
    own = site.own_endpoint
    alone = MemberSet((Member(config.node_id, site.directory_id, own.host, own.port),))
    settings = QuorumSettings(
        node_id=config.node_id,
        directory_id=site.directory_id,
        cluster_id=cluster_id,
        bootstrap=alone if way_in.is_founder else way_in.voters or NO_MEMBERS,
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        append_bytes_max=environment.metadata_append_bytes_max,
        segment_bytes=config.metadata_log_segment_bytes,
        snapshot_after_bytes=config.metadata_log_max_record_bytes_between_snapshots,
        snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
    )
    failure = MetadataFailure(give_up)
    quorum = Quorum(
        site.directory.path,
        settings,
        state_machine=controller,
        transport=peers,
        system=system,
        executor=workers,
        failed=failure.note,
    )
    controller.attach(quorum)
    duties = BrokerDuties(controller, monotonic_s=system.monotonic_s, is_gone=peers.is_gone)
    channel = ControllerChannel(controller, peers.pool)
    service = ControllerService(controller, duties, channel, system.random_bytes)
    membership = ClusterMembership(service, channel, note_address=peers.note_address)
    session_keys = SessionKeyMaker(controller, system.random_bytes)
    return Cluster(controller, quorum, peers, duties, channel, service, membership, failure, session_keys)


async def join_quorum(site: Site, cluster: Cluster, closing: Closing) -> bool:
    """Takes part in the quorum; whether this node is all there is, and needs no other to go on."""
    closing.note(Step.CLUSTER, partial(_leave_quorum, cluster))
    image = await cluster.controller.start()
    node_id = site.config.node_id
    others = set(image.brokers) - {node_id}
    members = {member.node_id for member in cluster.quorum.members} - {node_id}
    return cluster.controller.is_active and not others and not members


async def _leave_quorum(cluster: Cluster) -> None:
    cluster.duties.stop()
    await cluster.session_keys.stop()
    await cluster.controller.stop()
    cluster.peers.pool.close()


async def ask_members(site: Site, cluster: Cluster) -> BrokerError | None:
    """Why the others do not speak to this node, if one of them says so."""
    own_id, own = site.config.node_id, site.own_endpoint
    body = {
        "cluster_id": site.directory.cluster_id,
        "node_id": own_id,
        "directory_id": site.directory_id.hex(),
        # One that lost its disk does not know that it was ever here; a member that was removed does.
        "is_new": cluster.quorum.status().log_end_offset == 0,
        "host": own.host,
        "port": own.port,
    }
    others = {member.node_id for member in cluster.quorum.members} | set(cluster.controller.newest_image.brokers)
    for node_id in sorted(others - {own_id}):
        try:
            answered = await ask_for_place(cluster.peers.pool.client(node_id, CONTROL), body, ASK_SECONDS_MAX)
        except (RpcError, BrokerError):
            continue
        if (code := answered.get("code")) in _FINAL:
            return BrokerError(ErrorCode(code), str(answered.get("error")))
    return None
