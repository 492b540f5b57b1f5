"""What a quorum tells about itself (DescribeQuorum, `tidelog cluster status`)."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.raft.core.members import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStatus:
    """A member as the leader sees it; on other nodes only `member` and `is_voter` say something."""

    member: Member
    is_voter: bool
    match_offset: int = -1
    """The member's log is known to be the leader's up to here; -1 when nothing is known."""
    lag: int = -1
    """Offsets between that and the end of the leader's log."""
    last_contact_ms: int = -1
    """How long ago the member was last heard of; 0 for the leader itself, -1 for never."""
    last_caught_up_ms: int = -1
    """How long ago the member had everything the leader had; -1 for never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    node_id: int
    role: str
    """leader, candidate, pre-candidate, follower, learner or outsider (no member of the quorum it knows)."""
    term: int
    leader_id: int
    commit_offset: int
    log_start_offset: int
    log_end_offset: int
    snapshot_offset: int
    members_offset: int
    """Where the members in force were written; -1 for those the node was started with."""
    peers: tuple[PeerStatus, ...]

    @property
    def voters(self) -> tuple[PeerStatus, ...]:
        return tuple(peer for peer in self.peers if peer.is_voter)

    @property
    def learners(self) -> tuple[PeerStatus, ...]:
        return tuple(peer for peer in self.peers if not peer.is_voter)
