"""How a node comes to its cluster, as far as it is known before its data directory is open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.model.value import Value
from tidelog.raft.core.members import NO_MEMBERS, MemberSet

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig
    from tidelog.node.doors import Doors
    from tidelog.node.environment import Environment

Address = tuple[str, int]


class WayIn(Value):
    config: BrokerConfig
    """With the number that the node has in its cluster."""
    voters: MemberSet
    """The first voters, when the configuration names them."""
    cluster_id: str | None
    """None to take the directory's, or a new one."""
    directory_id: str | None = None
    """The id that a new directory gets, because a member knows the node by it already; None for a new id."""
    members: Mapping[int, Address] = {}
    """Where the members are, as the one says that took this node in."""

    @property
    def is_founder(self) -> bool:
        """The configuration names no other node."""
        return not self.config.controller_quorum_voters and not self.config.controller_quorum_bootstrap_servers


def find_way_in(config: BrokerConfig) -> tuple[WayIn, list[Address]]:
    """The way in, and the members to ask first; none for a founder and for one of the first voters.

    A node that founds a cluster imports nothing for this.
    """
    way_in = WayIn(config, NO_MEMBERS, config.cluster_id)
    if way_in.is_founder:
        return way_in, []
    from tidelog.node.joining import cluster_id_of, contacts, parse_voters

    voters = parse_voters(config)
    cluster_id = config.cluster_id or cluster_id_of(voters, config.data_directory)
    return WayIn(config, voters, cluster_id), contacts(config, voters)


async def ask_to_be_let_in(way_in: WayIn, where: list[Address], doors: Doors, environment: Environment) -> WayIn:
    """Has a member take this node in; a node that was a member goes on as it was when no member answers."""
    from tidelog.node.joining import ask_to_join, cluster_id_of

    own = [(endpoint.host, endpoint.port) for endpoint in doors.endpoints]
    bound = [(listener.host, listener.port) for listener in doors.listeners]
    joined = await ask_to_join(way_in.config, own, bound, where, environment)
    config = way_in.config.with_identity(joined.node_id, joined.cluster_id)
    cluster_id = config.cluster_id or cluster_id_of(way_in.voters, config.data_directory)
    return WayIn(config, way_in.voters, cluster_id, joined.directory_id, joined.members)
