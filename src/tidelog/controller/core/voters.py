"""Which nodes vote in the metadata quorum: an odd number, as large as possible up to a limit.

Two voters are worse than one: the loss of either stops the cluster. So voters are added in pairs.
"""

from __future__ import annotations

from tidelog.metadata.image import MetadataImage
from tidelog.raft.core.members import Member
from tidelog.raft.status import PeerStatus, QuorumStatus

LAG_MAX = 100
"""Offsets a learner may lag behind and still count as caught up: the quorum waits for the rest itself."""


def next_voter(status: QuorumStatus, image: MetadataImage, voters_max: int) -> Member | None:
    """The learner to promote now, if any."""
    voters = len(status.voters)
    ready = [peer for peer in status.learners if _is_ready(peer, image)]
    reachable = min(voters + len(ready), voters_max)
    wanted = reachable if reachable % 2 else reachable - 1
    if voters >= wanted or not ready:
        return None
    return min(ready, key=lambda peer: peer.member.node_id).member


def _is_ready(peer: PeerStatus, image: MetadataImage) -> bool:
    return image.is_active(peer.member.node_id) and 0 <= peer.lag <= LAG_MAX
