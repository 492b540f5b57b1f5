"""A member that needs entries which are gone gets the snapshot that stands for them, part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.limits import RAFT_SNAPSHOT_BYTES_MAX
from tidelog.raft.core import election, membership, replication
from tidelog.raft.core.effects import InstallSnapshot, MembersChanged, SendSnapshot, StoreSnapshotPart
from tidelog.raft.core.messages import SnapshotId, SnapshotRequest, SnapshotResponse
from tidelog.raft.core.progress import InFlight, Pace, Progress

if TYPE_CHECKING:
    from tidelog.raft.core.events import Receive, ReplyTo
    from tidelog.raft.core.machine import RaftMachine
    from tidelog.raft.core.members import MemberSet


class Incoming:
    """A snapshot that is coming in."""

    __slots__ = ("is_installing", "next_position", "reply_to", "request_id", "snapshot")

    def __init__(self, snapshot: SnapshotId) -> None:
        self.snapshot = snapshot
        self.next_position = 0
        self.is_installing = False
        """All parts are there, and the shell is at work: the log must not be touched."""
        self.reply_to: ReplyTo = None
        self.request_id = 0


# -- own snapshots ---------------------------------------------------------------------------------------------------


def taken(raft: RaftMachine, snapshot: SnapshotId, log_start_offset: int) -> None:
    assert snapshot.end_offset <= raft.commit_offset, "only what is committed goes into a snapshot"
    raft.snapshot = snapshot
    raft.log.drop_before(log_start_offset)
    raft.configurations.forget_before(log_start_offset)


# -- the leader ------------------------------------------------------------------------------------------------------


def send_part(raft: RaftMachine, progress: Progress) -> None:
    assert progress.snapshot is not None, "a snapshot is being sent"
    request_id = raft.next_request_id()
    progress.in_flight.append(InFlight(request_id, progress.next_offset, 0, raft.now_ms))
    progress.sent_ms = raft.now_ms
    effect = SendSnapshot(
        destination=progress.member,
        term=raft.term,
        request_id=request_id,
        snapshot=progress.snapshot,
        position=progress.snapshot_position,
    )
    raft.outbox.send(effect, overtakes_entries=True)


def take_response(raft: RaftMachine, source_id: int, response: SnapshotResponse) -> None:
    progress = raft.progress.get(source_id)
    if not raft.is_leader or response.term != raft.term or progress is None:
        return
    progress.contact_ms = raft.now_ms
    if progress.pace is not Pace.SNAPSHOT or progress.snapshot != response.snapshot:
        return
    was_under_way = progress.answered(response.request_id) is not None
    if response.is_installed:
        progress.match_offset = max(progress.match_offset, response.snapshot.end_offset)
        progress.next_offset = progress.match_offset
        progress.become_probe()
        replication.maybe_commit(raft)
        replication.send_due(raft)
        membership.check_promotion(raft, progress)
    elif was_under_way:
        progress.snapshot_position = response.next_position
        send_part(raft, progress)


# -- the member that gets it -----------------------------------------------------------------------------------------


def take_part(raft: RaftMachine, event: Receive, request: SnapshotRequest) -> None:
    if not election.hear_leader(raft, event.source_id, request.term):
        _answer(raft, event.reply_to, request.request_id, request.snapshot, 0, is_installed=False)
        return
    incoming = raft.incoming
    if raft.log.matches(*request.snapshot):
        # This log has it all, and maybe more that counts: it must not be replaced.
        raft.advance_commit(request.snapshot.end_offset)
    if request.snapshot.end_offset <= raft.commit_offset:
        raft.incoming = None if incoming is None or not incoming.is_installing else incoming
        _answer(raft, event.reply_to, request.request_id, request.snapshot, 0, is_installed=True)
        return
    if incoming is not None and incoming.is_installing:
        _answer(raft, event.reply_to, request.request_id, request.snapshot, incoming.next_position, is_installed=False)
        return
    if incoming is None or incoming.snapshot != request.snapshot or request.position == 0:
        incoming = raft.incoming = Incoming(request.snapshot)
    end = request.position + len(request.data)
    if request.position == incoming.next_position and end <= RAFT_SNAPSHOT_BYTES_MAX:
        raft.outbox.tell(StoreSnapshotPart(request.snapshot, request.position, request.data))
        incoming.next_position = end
        if request.is_last:
            incoming.is_installing = True
            incoming.reply_to, incoming.request_id = event.reply_to, request.request_id
            raft.outbox.tell(InstallSnapshot(request.snapshot))
            return
    _answer(raft, event.reply_to, request.request_id, request.snapshot, incoming.next_position, is_installed=False)


def installed(raft: RaftMachine, snapshot: SnapshotId, members: MemberSet) -> None:
    incoming, raft.incoming = raft.incoming, None
    assert incoming is not None, "a snapshot was to be installed"
    assert incoming.snapshot == snapshot, "and it was this one"
    raft.snapshot = snapshot
    raft.log.reset(snapshot.end_offset, snapshot.term)
    raft.outbox.installed(snapshot.end_offset)
    raft.configurations.reset(snapshot.end_offset, members)
    raft.commit_offset = snapshot.end_offset
    raft.outbox.tell(MembersChanged(members))
    election.reset_election_deadline(raft)
    _answer(raft, incoming.reply_to, incoming.request_id, snapshot, incoming.next_position, is_installed=True)


def refused(raft: RaftMachine, snapshot: SnapshotId) -> None:
    """It cannot be read: the leader sends it from the start again."""
    incoming, raft.incoming = raft.incoming, None
    assert incoming is not None, "a snapshot was to be installed"
    assert incoming.snapshot == snapshot, "and it was this one"
    _answer(raft, incoming.reply_to, incoming.request_id, snapshot, 0, is_installed=False)


def _answer(
    raft: RaftMachine, reply_to: ReplyTo, request_id: int, snapshot: SnapshotId, position: int, *, is_installed: bool
) -> None:
    response = SnapshotResponse(
        term=raft.term, request_id=request_id, snapshot=snapshot, next_position=position, is_installed=is_installed
    )
    raft.reply(reply_to, response)
