"""What a member gets that is too far behind, reads that are current, leadership that is handed over."""

from __future__ import annotations

from tests.unit.raft.driver import TIMEOUT_MS, Driver, appends_to, entry, member, of, replies, voters

from tidelog.model.errors import ErrorCode
from tidelog.raft.core.effects import (
    Done,
    Effect,
    InstallSnapshot,
    Refused,
    Send,
    SendSnapshot,
    StoreSnapshotPart,
)
from tidelog.raft.core.events import (
    Propose,
    ReadIndex,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    TransferLeadership,
)
from tidelog.raft.core.messages import (
    AppendResponse,
    SnapshotId,
    SnapshotRequest,
    SnapshotResponse,
    TimeoutNowRequest,
    VoteRequest,
)

SNAPSHOT = SnapshotId(50, 2)


def leader() -> Driver:
    driver = Driver(start=SNAPSHOT)
    driver.become_leader()
    return driver


def rejects(driver: Driver, effects: list[Effect], node_id: int) -> list[Effect]:
    [probe] = appends_to(effects, node_id)
    return driver.receive(
        node_id,
        AppendResponse(
            term=driver.machine.term, request_id=probe.request_id, success=False, match_offset=0, match_term=0, round=0
        ),
    )


def part(position: int, data: bytes, *, last: bool = False, snapshot: SnapshotId = SNAPSHOT) -> SnapshotRequest:
    return SnapshotRequest(term=2, request_id=4, snapshot=snapshot, position=position, data=data, is_last=last)


def answer(effects: list[Effect]) -> SnapshotResponse:
    [found] = replies(effects)
    assert isinstance(found, SnapshotResponse)
    return found


def test_who_needs_what_is_gone_gets_the_snapshot_part_by_part() -> None:
    driver = Driver(start=SNAPSHOT)
    effects = driver.become_leader()
    [first] = of(rejects(driver, effects, 2), SendSnapshot)
    assert (first.snapshot, first.position) == (SNAPSHOT, 0)
    took = SnapshotResponse(
        term=driver.machine.term, request_id=first.request_id, snapshot=SNAPSHOT, next_position=10, is_installed=False
    )
    [second] = of(driver.receive(2, took), SendSnapshot)
    assert second.position == 10
    installed = SnapshotResponse(
        term=driver.machine.term, request_id=second.request_id, snapshot=SNAPSHOT, next_position=20, is_installed=True
    )
    [append] = appends_to(driver.receive(2, installed), 2)
    assert append.prev_offset == 50


def test_a_snapshot_that_came_in_takes_the_place_of_the_log() -> None:
    driver = Driver(entries=(entry(0, 3, 1),))
    effects = driver.receive(2, part(0, b"abc"))
    assert of(effects, StoreSnapshotPart) == [StoreSnapshotPart(SNAPSHOT, 0, b"abc")]
    assert answer(effects).next_position == 3
    effects = driver.receive(2, part(3, b"de", last=True))
    assert InstallSnapshot(SNAPSHOT) in effects
    assert replies(effects) == [], "answered when it is installed"
    assert answer(driver.step(SnapshotInstalled(SNAPSHOT, voters(1, 2, 5)))).is_installed
    machine = driver.machine
    assert (machine.log.start_offset, machine.log.log_end, machine.commit_offset) == (50, (2, 50), 50)
    assert machine.members == voters(1, 2, 5)


def test_parts_that_do_not_follow_are_asked_for_again() -> None:
    driver = Driver()
    driver.receive(2, part(0, b"abc"))
    effects = driver.receive(2, part(9, b"xyz"))
    assert of(effects, StoreSnapshotPart) == []
    assert answer(effects).next_position == 3
    assert answer(driver.receive(2, part(7, b"x", snapshot=SnapshotId(60, 2)))).next_position == 0


def test_a_snapshot_that_cannot_be_read_is_asked_for_anew() -> None:
    driver = Driver()
    driver.receive(2, part(0, b"abc", last=True))
    response = answer(driver.step(SnapshotRefused(SNAPSHOT)))
    assert (response.is_installed, response.next_position) == (False, 0)


def test_a_snapshot_never_replaces_a_log_that_has_it_all() -> None:
    driver = Driver(entries=(entry(0, 50, 2), entry(50, 60, 2)))
    effects = driver.receive(2, part(0, b"abc", last=True))
    assert of(effects, InstallSnapshot) == []
    assert answer(effects).is_installed
    assert (driver.machine.log.end_offset, driver.machine.commit_offset) == (60, 50)


def test_a_snapshot_of_the_own_state_shortens_the_log() -> None:
    driver = Driver(members=voters(1))
    driver.wait(1)
    for number in range(5):
        driver.step(Propose(number, b"data", 1))
    driver.step(SnapshotTaken(SnapshotId(8, 1), 6))
    assert (driver.machine.log.start_offset, driver.machine.log.end_offset) == (6, 8)
    assert driver.machine.log.term_before(6) == 1


# -- reads -----------------------------------------------------------------------------------------------------------


def test_a_read_waits_for_a_round_that_began_after_it() -> None:
    driver = leader()
    end = driver.machine.log.end_offset
    driver.acknowledge(2, end)
    effects = driver.step(ReadIndex("read"))
    number = appends_to(effects, 2)[0].round
    assert of(effects, Done) == []
    assert of(driver.acknowledge(3, end, number=number - 1), Done) == []
    assert of(driver.acknowledge(2, end, number=number), Done) == [Done("read", end)]


def test_a_read_waits_until_the_leader_knows_what_is_committed() -> None:
    driver = leader()
    assert of(driver.step(ReadIndex("read")), Done) == []
    end = driver.machine.log.end_offset
    effects = driver.acknowledge(2, end)
    assert of(effects, Done) == []
    assert of(driver.acknowledge(2, end, number=driver.machine.round), Done) == [Done("read", end)]


def test_a_sole_voter_reads_at_once_and_a_follower_never() -> None:
    alone = Driver(members=voters(1))
    alone.wait(1)
    assert of(alone.step(ReadIndex("read")), Done) == [Done("read", alone.machine.log.end_offset)]
    assert of(Driver().step(ReadIndex("read")), Refused)[0].code == ErrorCode.NOT_CONTROLLER


# -- transfer --------------------------------------------------------------------------------------------------------


def test_the_successor_is_told_when_it_has_everything() -> None:
    driver = leader()
    end = driver.machine.log.end_offset
    driver.acknowledge(2, end)
    assert of(driver.step(TransferLeadership("move", 3)), Send) == []
    assert of(driver.step(Propose("late", b"data", 1)), Refused)[0].code == ErrorCode.NOT_CONTROLLER
    [told] = of(driver.acknowledge(3, end), Send)
    assert (told.destination, isinstance(told.request, TimeoutNowRequest)) == (member(3), True)
    newer = VoteRequest(
        term=driver.machine.term + 1,
        request_id=1,
        is_pre_vote=False,
        is_transfer=True,
        log_end=driver.machine.log.log_end,
    )
    effects = driver.receive(3, newer)
    assert of(effects, Done) == [Done("move", end)]


def test_a_leader_whose_successor_is_silent_leads_on() -> None:
    driver = leader()
    end = driver.machine.log.end_offset
    driver.acknowledge(2, end)
    driver.step(TransferLeadership("move", 3))
    driver.wait(TIMEOUT_MS - 1)
    driver.acknowledge(2, end)
    effects = driver.wait(1)
    assert of(effects, Refused)[0].code == ErrorCode.REQUEST_TIMED_OUT
    assert of(driver.step(Propose("next", b"data", 1)), Refused) == []


def test_only_voters_succeed() -> None:
    assert of(leader().step(TransferLeadership("move", 9)), Refused)[0].code == ErrorCode.VOTER_NOT_FOUND
