"""The log from the leader to the others, and what counts as committed.

An entry is committed when a majority of the voters has it on disk and it is of the leader's own term; everything before
it is committed with it. Entries of earlier terms are never counted by themselves: a majority may hold one of them and
still elect a leader that overwrites it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.errors import ErrorCode
from tidelog.raft.core import election, membership, reads, snapshots, transfer
from tidelog.raft.core.effects import Proposed, Refused, SendAppend
from tidelog.raft.core.log_index import UNKNOWN_TERM
from tidelog.raft.core.messages import AppendRequest, AppendResponse, EntryKind
from tidelog.raft.core.progress import InFlight, Pace, Progress

if TYPE_CHECKING:
    from tidelog.raft.core.events import Propose, Receive
    from tidelog.raft.core.machine import RaftMachine


NO_REQUEST = 0


class DivergedLog(Exception):
    """A leader contradicts what is certain here: two clusters share an id, or a disk has lost what it promised."""


# -- the leader ------------------------------------------------------------------------------------------------------


def propose(raft: RaftMachine, event: Propose) -> None:
    waiting_bytes = raft.log.bytes_between(raft.log.last_end_before(raft.commit_offset), raft.log.end_offset)
    if not raft.is_leader:
        raft.outbox.tell(Refused(event.token, ErrorCode.NOT_CONTROLLER, "This node does not lead the quorum."))
    elif raft.transfer is not None:
        raft.outbox.tell(Refused(event.token, ErrorCode.NOT_CONTROLLER, "The leadership is being handed over."))
    elif waiting_bytes + len(event.data) > raft.settings.uncommitted_bytes_max and waiting_bytes:
        raft.outbox.tell(Refused(event.token, ErrorCode.REQUEST_TIMED_OUT, "Too much waits for a majority already."))
    else:
        end_offset = raft.append_own(EntryKind.RECORDS, event.record_count, event.data)
        raft.outbox.tell(Proposed(event.token, end_offset))
        send_due(raft)


def follow_members(raft: RaftMachine) -> None:
    """The members changed: the leader begins to send to new ones, and stops sending to those that are gone."""
    for member in raft.members:
        known = raft.progress.get(member.node_id)
        if member.node_id != raft.node_id and (known is None or known.member != member):
            if known is not None and known.member.is_same_node(member.node_id, member.directory_id):
                known.member = member
            else:
                raft.progress[member.node_id] = Progress(member, raft.log.end_offset, raft.now_ms)
    for node_id in [node_id for node_id in raft.progress if raft.members.find(node_id) is None]:
        del raft.progress[node_id]


def due_ms(raft: RaftMachine, progress: Progress) -> int:
    """When the member must be sent something, if nothing happens before."""
    return progress.sent_ms + raft.settings.heartbeat_interval_ms


def send_due(raft: RaftMachine) -> None:
    """To all members: new entries as far as the window allows, and an empty append where one is due."""
    for progress in raft.progress.values():
        _send_due(raft, progress)


def _send_due(raft: RaftMachine, progress: Progress) -> None:
    if progress.in_flight and progress.in_flight[0].sent_ms + raft.settings.request_timeout_ms <= raft.now_ms:
        _give_up_waiting(raft, progress)
    is_due = due_ms(raft, progress) <= raft.now_ms
    if progress.pace is Pace.SNAPSHOT:
        if is_due and all(each.request_id == NO_REQUEST for each in progress.in_flight):
            progress.in_flight.clear()
            snapshots.send_part(raft, progress)
        elif is_due:
            send_heartbeat(raft, progress)
        return
    if raft.log.term_before(progress.next_offset) == UNKNOWN_TERM:
        assert raft.snapshot is not None, "a log that begins later has a snapshot of what was before"
        progress.become_snapshot(raft.snapshot)
        snapshots.send_part(raft, progress)
        return
    if progress.pace is Pace.PROBE:
        if not progress.in_flight or is_due:
            progress.in_flight.clear()
            _send(raft, progress, raft.log.end_within(progress.next_offset, raft.settings.append_bytes_max))
        return
    while progress.next_offset < raft.log.end_offset and _has_room(raft, progress):
        end = raft.log.end_within(progress.next_offset, raft.settings.append_bytes_max)
        _send(raft, progress, end)
        progress.next_offset = end
        is_due = False
    if is_due:
        send_heartbeat(raft, progress)


def _give_up_waiting(raft: RaftMachine, progress: Progress) -> None:
    """What is under way counts as lost. A snapshot goes on where it was, unless there is a newer one."""
    if progress.pace is not Pace.SNAPSHOT:
        progress.become_probe()
    elif raft.snapshot is not None and progress.snapshot != raft.snapshot:
        progress.become_snapshot(raft.snapshot)
    else:
        progress.in_flight.clear()


def _has_room(raft: RaftMachine, progress: Progress) -> bool:
    settings = raft.settings
    return (
        len(progress.in_flight) < settings.in_flight_requests_max
        and progress.in_flight_bytes < settings.in_flight_bytes_max
    )


def send_heartbeat(raft: RaftMachine, progress: Progress) -> None:
    """No entries, and a place that is known to match: it tells the commit offset and asks for a life sign."""
    place = max(progress.match_offset, raft.log.start_offset)
    progress.sent_ms = raft.now_ms
    raft.outbox.send(_append(raft, progress, place, place), overtakes_entries=True)


def _send(raft: RaftMachine, progress: Progress, end_offset: int) -> None:
    size = raft.log.bytes_between(progress.next_offset, end_offset)
    effect = _append(raft, progress, progress.next_offset, end_offset)
    progress.in_flight.append(InFlight(effect.request_id, progress.next_offset, size, raft.now_ms))
    progress.sent_ms = raft.now_ms
    raft.outbox.send(effect, overtakes_entries=True)


def _append(raft: RaftMachine, progress: Progress, start: int, end: int) -> SendAppend:
    return SendAppend(
        destination=progress.member,
        term=raft.term,
        request_id=raft.next_request_id(),
        prev_offset=start,
        prev_term=raft.log.term_before(start),
        end_offset=end,
        commit_offset=raft.commit_offset,
        round=raft.round,
    )


def take_response(raft: RaftMachine, event: Receive, response: AppendResponse) -> None:
    progress = raft.progress.get(event.source_id)
    if not raft.is_leader or response.term != raft.term or progress is None:
        return
    progress.contact_ms = raft.now_ms
    is_first_word = progress.directory_id != event.source_directory
    progress.directory_id = event.source_directory
    progress.round = max(progress.round, response.round)
    answered = progress.answered(response.request_id)
    if response.success:
        _matched(raft, progress, response.match_offset)
    elif answered is not None and progress.pace is not Pace.SNAPSHOT:
        _parted(raft, progress, answered, response)
    if raft.is_leader:
        if is_first_word:
            # Nothing need ever be committed after a late member was heard.
            membership.pin_directories(raft)
        _send_due(raft, progress)
        reads.check(raft)


def _parted(raft: RaftMachine, progress: Progress, answered: InFlight, response: AppendResponse) -> None:
    """The member's log is another before the place it was sent entries for: try further back."""
    if answered.prev_offset <= progress.match_offset:
        # It had this once; its disk has lost it. Nothing can be relied on but what it says now.
        progress.match_offset = 0
    progress.become_probe()
    start = raft.log.start_offset
    behind = raft.log.last_possible_match(response.match_offset, response.match_term)
    progress.next_offset = max(progress.match_offset, min(answered.prev_offset, behind.offset))
    if start and (response.match_offset < start or (behind.offset == start and behind.term != response.match_term)):
        # The logs part before this one begins: the follower needs a snapshot.
        progress.next_offset = start - 1


def _matched(raft: RaftMachine, progress: Progress, match_offset: int) -> None:
    if match_offset > raft.log.end_offset:
        return
    if match_offset >= progress.match_offset and progress.pace is not Pace.SNAPSHOT:
        progress.match_offset = match_offset
        if progress.pace is Pace.PROBE:
            progress.become_stream()
        progress.next_offset = max(progress.next_offset, match_offset)
    if progress.match_offset == raft.log.end_offset:
        progress.caught_up_ms = raft.now_ms
    maybe_commit(raft)
    membership.check_promotion(raft, progress)
    transfer.check_target(raft, progress)


def become_unreachable(raft: RaftMachine, node_id: int) -> None:
    progress = raft.progress.get(node_id)
    if progress is not None:
        _give_up_waiting(raft, progress)
        # This stands for a request until the next heartbeat is due: a dead peer is not hammered.
        progress.in_flight.append(InFlight(NO_REQUEST, progress.next_offset, 0, raft.now_ms))


def maybe_commit(raft: RaftMachine) -> None:
    """Whatever a majority has on disk, if the leader's own term wrote its last entry."""
    if not raft.is_leader:
        return
    voters = raft.members.voter_ids
    matches = sorted(
        raft.outbox.durable_offset if node_id == raft.node_id else raft.progress[node_id].match_offset
        for node_id in voters
    )
    if not matches:
        return
    offset = matches[len(voters) - raft.members.majority]
    if offset > raft.commit_offset and raft.log.term_before(offset) == raft.term:
        was_active = raft.is_active_leader
        raft.advance_commit(offset)
        membership.committed(raft)
        if not raft.is_leader:
            return
        reads.committed(raft, was_active=was_active)
        _tell_commit(raft)


def _tell_commit(raft: RaftMachine) -> None:
    """With the next entries where there are any; otherwise at once, so that all members apply what was decided."""
    for progress in raft.progress.values():
        if progress.pace is Pace.STREAM and progress.next_offset == raft.log.end_offset:
            if progress.match_offset >= raft.commit_offset:
                send_heartbeat(raft, progress)
        else:
            _send_due(raft, progress)


# -- the others ------------------------------------------------------------------------------------------------------


def take_append(raft: RaftMachine, event: Receive, request: AppendRequest) -> None:
    if not election.hear_leader(raft, event.source_id, request.term):
        _answer(raft, event, request, False, raft.commit_offset)
        return
    if raft.incoming is not None and raft.incoming.is_installing:
        _answer(raft, event, request, False, raft.commit_offset)
    elif request.prev_offset >= raft.commit_offset and not raft.log.matches(request.prev_offset, request.prev_term):
        possible = raft.log.last_possible_match(request.prev_offset, request.prev_term)
        _answer(raft, event, request, False, max(possible.offset, raft.commit_offset))
    else:
        match_offset = _take_entries(raft, request)
        raft.advance_commit(min(request.commit_offset, match_offset))
        _answer(raft, event, request, True, match_offset)


def _take_entries(raft: RaftMachine, request: AppendRequest) -> int:
    """Entries that are here already stay; at the first that differs this log is cut. Up to where both are the same.

    What is committed is the same everywhere: entries below are not even looked at.
    """
    offset = max(request.prev_offset, raft.commit_offset)
    for entry in request.entries:
        if entry.end_offset <= raft.commit_offset:
            continue
        if entry.base_offset != offset:
            raise DivergedLog(f"an entry begins at offset {entry.base_offset} where one ends at {offset} here")
        if not raft.log.matches(entry.end_offset, entry.term):
            if offset < raft.log.end_offset:
                raft.truncate_log(offset)
            raft.append_entry(entry)
        offset = entry.end_offset
    return offset


def _answer(raft: RaftMachine, event: Receive, request: AppendRequest, success: bool, match_offset: int) -> None:
    response = AppendResponse(
        term=raft.term,
        request_id=request.request_id,
        success=success,
        match_offset=match_offset,
        match_term=max(raft.log.term_before(match_offset), 0),
        round=request.round,
    )
    # What is on disk already need not wait for entries that are not.
    is_durable = not success or match_offset <= raft.outbox.durable_offset
    raft.reply(event.reply_to, response, overtakes_entries=is_durable)
