"""Who leads: timeouts, pre-votes, votes, and a leader that gives up when a majority does not answer.

A vote goes to one candidate per term whose log is at least as far as the voter's. No voter votes while it hears a
leader, unless that leader asked for the election: a node that was cut off cannot disturb the others when it comes back.

A cluster is founded by all of its first voters, not by a majority: some of them may have lost their disks, and the
metadata of the cluster they were is on those that do not answer. All votes of the founding are on disk before there is
anything to lose, and they say which data directories the first voters have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.raft.core import membership, replication
from tidelog.raft.core.effects import FoundersMissing, Role, RoleChanged, Send
from tidelog.raft.core.messages import (
    LEADER_CHANGE_RECORDS,
    MEMBERS_RECORDS,
    EntryKind,
    VoteRequest,
    VoteResponse,
)
from tidelog.raft.core.progress import Progress
from tidelog.raft.core.settings import LONG_AGO_MS, NEVER_MS, NOBODY

if TYPE_CHECKING:
    from tidelog.raft.core.events import Receive
    from tidelog.raft.core.machine import RaftMachine

HURRIED_ELECTION_SHARE = 4
"""How much shorter timeouts are in the time after the leader was seen to be gone: after a split
vote, or a refusal by a voter that had not seen it yet, the next election begins soon."""
TURNS_PER_ELECTION_TIMEOUT = 10


def reset_election_deadline(raft: RaftMachine) -> None:
    """Later by a random part, so that few campaign at the same time. Only eligible voters campaign."""
    if not raft.may_campaign:
        raft.election_deadline_ms = NEVER_MS
        return
    timeout_ms = raft.settings.election_timeout_ms
    if raft.now_ms < raft.hurries_until_ms:
        timeout_ms = max(1, timeout_ms // HURRIED_ELECTION_SHARE)
    raft.election_deadline_ms = raft.now_ms + timeout_ms + raft.random.randrange(timeout_ms)


def miss_leader(raft: RaftMachine, node_id: int) -> None:
    """The leader's process ended, as far as can be seen from here: it is not waited for, and not heard any more.

    The others see the same at the same moment, so they ask in the order of their ids behind the leader's, each in a
    time of its own. A hint that was wrong does no harm: a voter that hears the leader does not vote.
    """
    if raft.role is not Role.FOLLOWER or raft.leader_id != node_id:
        return
    timeout_ms = raft.settings.election_timeout_ms
    raft.leader_contact_ms = LONG_AGO_MS
    raft.hurries_until_ms = raft.now_ms + timeout_ms
    if raft.may_campaign:
        voters = sorted(raft.members.voter_ids, key=lambda voter: (voter <= node_id, voter))
        place = voters.index(raft.node_id) if raft.node_id in voters else len(voters)
        turn_ms = max(1, timeout_ms // TURNS_PER_ELECTION_TIMEOUT)
        raft.election_deadline_ms = raft.now_ms + place * turn_ms + raft.random.randrange(turn_ms)


def time_out(raft: RaftMachine) -> None:
    """No leader was heard for too long, or the last election came to nothing."""
    if not raft.may_campaign:
        raft.election_deadline_ms = NEVER_MS
    elif raft.members.voter_ids == (raft.node_id,):
        campaign(raft, is_transfer=False)
    else:
        if raft.is_bootstrapping and raft.role in (Role.PRE_CANDIDATE, Role.CANDIDATE):
            raft.outbox.tell(FoundersMissing(tuple(n for n in raft.members.voter_ids if not raft.votes.get(n))))
        _ask_first(raft)


def _ask_first(raft: RaftMachine) -> None:
    """The pre-vote: the term stays as it is until a majority would vote."""
    raft.role, raft.leader_id = Role.PRE_CANDIDATE, NOBODY
    raft.outbox.tell(RoleChanged(raft.role, raft.term, NOBODY))
    _ask(raft, is_pre_vote=True)


def campaign(raft: RaftMachine, *, is_transfer: bool) -> None:
    """The election: a new term, the own vote, and a request to all voters. The requests leave once the vote is on
    disk."""
    raft.term += 1
    raft.voted_for, raft.voted_directory = raft.node_id, raft.settings.directory_id
    raft.save_hard_state()
    raft.role, raft.leader_id = Role.CANDIDATE, NOBODY
    raft.is_transfer_election = is_transfer
    raft.outbox.tell(RoleChanged(raft.role, raft.term, NOBODY))
    _ask(raft, is_pre_vote=False)


def _ask(raft: RaftMachine, *, is_pre_vote: bool) -> None:
    reset_election_deadline(raft)
    raft.votes, raft.vote_directories = {raft.node_id: True}, {}
    for member in raft.members.voters:
        if member.node_id != raft.node_id:
            request = VoteRequest(
                term=raft.term,
                request_id=raft.next_request_id(),
                is_pre_vote=is_pre_vote,
                is_transfer=raft.is_transfer_election and not is_pre_vote,
                log_end=raft.log.log_end,
            )
            raft.outbox.send(Send(member, request))
    _count(raft)


def answer_vote(raft: RaftMachine, event: Receive, request: VoteRequest) -> None:
    granted = _grants_pre_vote(raft, request) if request.is_pre_vote else _grants_vote(raft, event, request)
    raft.reply(
        event.reply_to,
        VoteResponse(term=raft.term, request_id=request.request_id, is_pre_vote=request.is_pre_vote, granted=granted),
    )


def hears_leader(raft: RaftMachine) -> bool:
    """A leader counts as alive for the shortest time after which a follower would replace it."""
    return raft.is_leader or raft.now_ms < raft.leader_contact_ms + raft.settings.election_timeout_ms


def _grants_pre_vote(raft: RaftMachine, request: VoteRequest) -> bool:
    return request.term >= raft.term and not hears_leader(raft) and request.log_end >= raft.log.log_end


def _grants_vote(raft: RaftMachine, event: Receive, request: VoteRequest) -> bool:
    if request.term < raft.term or (request.term > raft.term and not request.is_transfer and hears_leader(raft)):
        return False
    if request.term > raft.term:
        raft.become_follower(request.term, NOBODY)
    if request.log_end < raft.log.log_end:
        return False
    if raft.voted_for != NOBODY:
        return raft.voted_for == event.source_id and raft.voted_directory == event.source_directory
    if raft.leader_id != NOBODY:
        return False
    if raft.role is Role.PRE_CANDIDATE:
        raft.become_follower(raft.term, NOBODY)
    raft.voted_for, raft.voted_directory = event.source_id, event.source_directory
    raft.save_hard_state()
    reset_election_deadline(raft)
    return True


def take_vote(raft: RaftMachine, event: Receive, response: VoteResponse) -> None:
    source_id = event.source_id
    wanted = Role.PRE_CANDIDATE if response.is_pre_vote else Role.CANDIDATE
    if raft.role is wanted and response.term <= raft.term and raft.members.is_voter(source_id):
        # A pre-vote may be given by a voter of an older term; a vote is of this term or of none.
        if response.granted and not response.is_pre_vote and response.term != raft.term:
            return
        raft.votes[source_id] = response.granted
        raft.vote_directories[source_id] = event.source_directory
        _count(raft)


def _count(raft: RaftMachine) -> None:
    granted = [node_id for node_id, vote in raft.votes.items() if vote]
    refused = [node_id for node_id, vote in raft.votes.items() if not vote]
    if len(granted) == len(raft.members.voters) if raft.is_bootstrapping else raft.members.is_majority(granted):
        if raft.role is Role.PRE_CANDIDATE:
            campaign(raft, is_transfer=False)
        else:
            _become_leader(raft)
    elif raft.members.is_majority(refused):
        raft.become_follower(raft.term, NOBODY)


def _become_leader(raft: RaftMachine) -> None:
    """Its first entry announces the term to all members. Once committed, it commits what earlier terms left behind."""
    raft.role, raft.leader_id = Role.LEADER, raft.node_id
    raft.is_transfer_election = False
    raft.round = 0
    raft.quorum_check_ms = raft.now_ms + raft.settings.election_timeout_ms
    raft.progress = {
        member.node_id: Progress(member, raft.log.end_offset, raft.now_ms)
        for member in raft.members
        if member.node_id != raft.node_id
    }
    raft.outbox.tell(RoleChanged(raft.role, raft.term, raft.leader_id))
    raft.term_start_offset = raft.append_own(EntryKind.LEADER_CHANGE, LEADER_CHANGE_RECORDS)
    if raft.is_bootstrapping:
        # The first members were only configured so far: nodes that join later must find them in the log.
        raft.append_own(EntryKind.MEMBERS, MEMBERS_RECORDS, members=membership.first_members(raft))
    replication.maybe_commit(raft)
    replication.send_due(raft)


def hear_leader(raft: RaftMachine, source_id: int, term: int) -> bool:
    """Whether the sender is the leader of the newest term known here; if so, it is followed from now on."""
    if term < raft.term:
        return False
    if term == raft.term and raft.is_leader:
        raise replication.DivergedLog(f"node {source_id} leads in term {term} too")
    if term > raft.term or raft.role is not Role.FOLLOWER or raft.leader_id != source_id:
        raft.become_follower(term, source_id)
    raft.leader_contact_ms = raft.now_ms
    raft.hurries_until_ms = LONG_AGO_MS
    reset_election_deadline(raft)
    return True


def check_quorum(raft: RaftMachine) -> None:
    """A leader that no majority answers may have been replaced already: better no leader than a wrong one."""
    timeout_ms = raft.settings.election_timeout_ms
    alive = [raft.node_id]
    alive += (node_id for node_id, each in raft.progress.items() if each.contact_ms + timeout_ms >= raft.now_ms)
    if raft.members.is_majority(alive):
        raft.quorum_check_ms = raft.now_ms + timeout_ms
    else:
        raft.become_follower(raft.term, NOBODY)
