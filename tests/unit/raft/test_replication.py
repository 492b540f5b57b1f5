"""The log from the leader to the others: what is sent, what is taken, what counts as committed."""

from __future__ import annotations

import pytest
from tests.unit.raft.driver import HEARTBEAT_MS, TIMEOUT_MS, Driver, appends_to, entry, of, replies, voters

from tidelog.model.errors import ErrorCode
from tidelog.raft.core.effects import Committed, Persist, Proposed, Refused, RoleChanged
from tidelog.raft.core.events import Propose, Unreachable
from tidelog.raft.core.messages import AppendResponse
from tidelog.raft.core.replication import DivergedLog


def response(effects: list[object]) -> AppendResponse:
    [found] = replies(effects)  # type: ignore[arg-type]
    assert isinstance(found, AppendResponse)
    return found


def leader(**settings: int) -> Driver:
    """Of three, with all of its log on all of them."""
    driver = Driver(**settings)
    driver.become_leader()
    for node_id in (2, 3):
        driver.acknowledge(node_id, driver.machine.log.end_offset)
    return driver


def test_an_entry_is_committed_when_a_majority_has_it_on_disk() -> None:
    driver = leader()
    effects = driver.step(Propose("p", b"data", 2))
    assert of(effects, Proposed) == [Proposed("p", 5)]
    assert of(effects, Committed) == []
    assert Committed(5) in driver.acknowledge(3, 5)


def test_entries_travel_while_the_leader_syncs_but_its_own_copy_counts_only_then() -> None:
    driver = leader()
    driver.syncs = False
    effects = driver.step(Propose("p", b"data", 1))
    assert appends_to(effects, 2), "sent before the sync"
    assert of(driver.acknowledge(2, 4), Committed) == []
    assert Committed(4) in driver.sync()


def test_an_entry_of_an_earlier_term_is_not_committed_by_count() -> None:
    driver = Driver(members=voters(1, 2, 3), entries=(entry(0, 1, 1), entry(1, 2, 2)))
    driver.become_leader()
    assert of(driver.acknowledge(2, 2), Committed) == [], "a majority has it, but its term is over"
    assert of(driver.acknowledge(2, 3), Committed) == [Committed(3)], "with an entry of the own term comes the rest"


def test_an_acknowledgement_waits_for_the_disk() -> None:
    driver = Driver(syncs=False)
    driver.append(2, 1, (0, 0))
    driver.sync()
    effects = driver.append(2, 1, (0, 0), entry(0, 2, 1))
    assert [write.entries for write in of(effects, Persist)] == [(entry(0, 2, 1),)]
    assert replies(effects) == []
    assert response(driver.sync()).match_offset == 2


def test_a_life_sign_does_not_wait_for_entries_that_are_being_synced() -> None:
    driver = Driver(syncs=False)
    driver.append(2, 1, (0, 0))
    driver.sync()
    driver.append(2, 1, (0, 0), entry(0, 2, 1))
    answer = response(driver.append(2, 1, (0, 0)))
    assert (answer.success, answer.match_offset) == (True, 0)


def test_a_gap_is_refused_and_the_log_stays() -> None:
    driver = Driver(entries=(entry(0, 2, 1),))
    answer = response(driver.append(2, 1, (5, 1), entry(5, 6, 1)))
    assert (answer.success, answer.match_offset, answer.match_term) == (False, 2, 1)
    assert driver.machine.log.end_offset == 2


def test_entries_that_differ_are_cut_and_replaced() -> None:
    driver = Driver(entries=(entry(0, 2, 1), entry(2, 3, 1), entry(3, 4, 1)))
    effects = driver.append(2, 3, (2, 1), entry(2, 5, 3))
    write = of(effects, Persist)[0]
    assert (write.truncate_to, write.entries) == (2, (entry(2, 5, 3),))
    assert response(effects).match_offset == 5


def test_entries_that_are_there_already_are_neither_cut_nor_written_again() -> None:
    driver = Driver(entries=(entry(0, 2, 1), entry(2, 3, 1)))
    driver.append(2, 1, (0, 0))
    before = len(driver.writes)
    answer = response(driver.append(2, 1, (0, 0), entry(0, 2, 1)))
    assert answer.match_offset == 2, "the entry behind may be wrong: nothing is said of it"
    assert len(driver.writes) == before
    assert driver.machine.log.end_offset == 3


def test_a_follower_commits_no_further_than_the_logs_are_known_to_agree() -> None:
    driver = Driver(entries=(entry(0, 2, 1), entry(2, 3, 1)))
    assert of(driver.append(2, 2, (2, 1), commit=9), Committed) == [Committed(2)]


def test_entries_below_the_commit_offset_are_not_looked_at() -> None:
    driver = Driver(entries=(entry(0, 2, 1), entry(2, 3, 1)))
    driver.append(2, 1, (3, 1), commit=3)
    answer = response(driver.append(2, 1, (0, 0), entry(0, 2, 1), entry(2, 3, 1), entry(3, 4, 1)))
    assert answer.match_offset == 4


def test_a_leader_that_contradicts_what_is_committed_is_no_leader_of_this_cluster() -> None:
    driver = Driver(entries=(entry(0, 2, 1), entry(2, 4, 1)))
    driver.append(2, 1, (4, 1), commit=4)
    with pytest.raises(DivergedLog):
        driver.append(2, 1, (0, 0), entry(0, 3, 1), entry(3, 9, 1))


def test_an_old_leader_is_told_of_the_newer_term() -> None:
    driver = Driver(entries=(entry(0, 2, 3),))
    answer = response(driver.append(2, 1, (0, 0)))
    assert (answer.success, answer.term) == (False, 3)


def test_a_leader_that_hears_of_a_newer_term_steps_down() -> None:
    driver = leader()
    newer = AppendResponse(term=9, request_id=1, success=False, match_offset=0, match_term=0, round=0)
    effects = driver.receive(2, newer)
    assert any(isinstance(each, RoleChanged) and each.term == 9 for each in effects)
    assert of(driver.step(Propose("p", b"data", 1)), Refused)[0].code == ErrorCode.NOT_CONTROLLER


def test_the_window_bounds_what_is_under_way() -> None:
    driver = leader(append_bytes_max=10, in_flight_requests_max=3)
    sent = []
    for number in range(8):
        sent += appends_to(driver.step(Propose(number, b"0123456789", 1)), 2)
    assert [each.prev_offset for each in sent] == [3, 4, 5]
    more = appends_to(driver.acknowledge(2, 4, request_id=sent[0].request_id), 2)
    assert [each.prev_offset for each in more] == [6]


def test_too_much_that_waits_for_a_majority_is_refused() -> None:
    driver = leader(uncommitted_bytes_max=25)
    outcomes = [driver.step(Propose(number, b"0123456789", 1)) for number in range(3)]
    assert [len(of(each, Refused)) for each in outcomes] == [0, 0, 1]
    driver.acknowledge(2, 5)
    assert of(driver.step(Propose(9, b"0123456789", 1)), Proposed)


def test_a_follower_that_diverged_is_found_in_few_steps() -> None:
    log = tuple(entry(offset, offset + 1, 1 if offset < 500 else 3) for offset in range(1000))
    driver = Driver(entries=log)
    [probe] = appends_to(driver.become_leader(), 2)
    # The follower has term 2 from 400 on: it names the last offset that can match.
    answer = AppendResponse(
        term=driver.machine.term, request_id=probe.request_id, success=False, match_offset=1000, match_term=2, round=0
    )
    [probe] = appends_to(driver.receive(2, answer), 2)
    assert (probe.prev_offset, probe.prev_term) == (500, 1)


def test_a_silent_follower_is_probed_at_the_pace_of_heartbeats() -> None:
    driver = leader()
    driver.step(Unreachable(2))
    driver.step(Propose("p", b"data", 1))
    assert appends_to(driver.wait(HEARTBEAT_MS - 1), 2) == []
    for _ in range(3):
        assert len(appends_to(driver.wait(HEARTBEAT_MS), 2)) == 1
        driver.acknowledge(3, 4)


def test_what_is_committed_is_told_at_once() -> None:
    driver = leader()
    driver.step(Propose("p", b"data", 1))
    driver.acknowledge(2, 4)
    told = appends_to(driver.acknowledge(3, 4), 3) or appends_to(driver.wait(HEARTBEAT_MS), 3)
    assert told[0].commit_offset == 4
    assert driver.now_ms < 4 * TIMEOUT_MS
