"""What a quorum tells about itself (DescribeQuorum, `tidelog cluster status`)."""

from __future__ import annotations

from tidelog.model.value import Value
from tidelog.raft.core.effects import Role
from tidelog.raft.core.machine import RaftMachine
from tidelog.raft.core.members import Member
from tidelog.raft.core.settings import LONG_AGO_MS


class PeerStatus(Value, kw_only=True):
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


class QuorumStatus(Value, kw_only=True):
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


def describe(raft: RaftMachine, now_ms: int) -> QuorumStatus:
    role = raft.role.value
    if raft.role is Role.FOLLOWER and not raft.is_voter:
        role = "learner" if raft.members.is_learner(raft.node_id) else "outsider"
    return QuorumStatus(
        node_id=raft.node_id,
        role=role,
        term=raft.term,
        leader_id=raft.leader_id,
        commit_offset=raft.commit_offset,
        log_start_offset=raft.log.start_offset,
        log_end_offset=raft.log.end_offset,
        snapshot_offset=-1 if raft.snapshot is None else raft.snapshot.end_offset,
        members_offset=raft.members_offset,
        peers=tuple(_describe_peer(raft, member, now_ms) for member in raft.members),
    )


def _describe_peer(raft: RaftMachine, member: Member, now_ms: int) -> PeerStatus:
    is_voter = raft.members.is_voter(member.node_id)
    progress = raft.progress.get(member.node_id)
    if progress is None and not (raft.is_leader and member.node_id == raft.node_id):
        return PeerStatus(member=member, is_voter=is_voter)
    if progress is None:
        end = raft.log.end_offset
        return PeerStatus(
            member=member, is_voter=is_voter, match_offset=end, lag=0, last_contact_ms=0, last_caught_up_ms=0
        )
    return PeerStatus(
        member=member,
        is_voter=is_voter,
        match_offset=progress.match_offset,
        lag=raft.log.end_offset - progress.match_offset,
        last_contact_ms=max(0, now_ms - progress.contact_ms),
        last_caught_up_ms=-1 if progress.caught_up_ms == LONG_AGO_MS else max(0, now_ms - progress.caught_up_ms),
    )
