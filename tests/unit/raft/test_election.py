"""Elections: pre-votes, votes that last, leaders that give up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.raft.driver import (
    HEARTBEAT_MS,
    TIMEOUT_MS,
    Driver,
    appends_to,
    directory,
    entry,
    of,
    replies,
    voters,
)

from tidelog.raft.core.effects import FoundersMissing, HardState, Persist, Role, RoleChanged, Send
from tidelog.raft.core.events import LeaderGone
from tidelog.raft.core.members import ANY_DIRECTORY, NO_MEMBERS, Member, MemberSet
from tidelog.raft.core.messages import (
    AppendResponse,
    Entry,
    EntryKind,
    LogEnd,
    RefusalResponse,
    TimeoutNowRequest,
    VoteRequest,
    VoteResponse,
)


def ask(term: int, *, pre_vote: bool = False, transfer: bool = False, log_end: LogEnd = LogEnd(0, 0)) -> VoteRequest:  # noqa: B008
    return VoteRequest(term=term, request_id=1, is_pre_vote=pre_vote, is_transfer=transfer, log_end=log_end)


def granted(response: object) -> bool:
    assert isinstance(response, VoteResponse)
    return response.granted


def test_a_silent_leader_is_replaced_after_one_to_two_timeouts() -> None:
    driver = Driver()
    assert TIMEOUT_MS <= driver.machine.deadline_ms() < 2 * TIMEOUT_MS
    effects = driver.wait(2 * TIMEOUT_MS)
    assert {sent.destination.node_id for sent in of(effects, Send)} == {2, 3}
    assert all(isinstance(sent.request, VoteRequest) and sent.request.is_pre_vote for sent in of(effects, Send))
    assert driver.machine.term == 0, "a pre-vote leaves the term as it is"
    assert driver.writes == []


def founders(driver: Driver, *node_ids: int) -> None:
    """Answers of these voters to the questions that are open."""
    is_pre_vote = driver.machine.role is Role.PRE_CANDIDATE
    for node_id in node_ids:
        driver.receive(
            node_id,
            VoteResponse(term=driver.machine.term, request_id=1, is_pre_vote=is_pre_vote, granted=True),
        )


def test_a_cluster_is_founded_by_all_of_its_first_voters() -> None:
    unnamed = MemberSet(tuple(Member(node_id, ANY_DIRECTORY, f"host{node_id}", 9092) for node_id in (1, 2, 3)))
    driver = Driver(members=unnamed)
    driver.wait(2 * TIMEOUT_MS)
    founders(driver, 2)
    assert driver.machine.role is Role.PRE_CANDIDATE, "the disk of the third one may hold a cluster"
    effects = driver.wait(2 * TIMEOUT_MS)
    assert of(effects, FoundersMissing) == [FoundersMissing((3,))]
    founders(driver, 2, 3)
    assert driver.machine.role is Role.CANDIDATE
    founders(driver, 2)
    assert driver.machine.role is Role.CANDIDATE
    founders(driver, 3)
    assert driver.machine.role is Role.LEADER
    known = [each.directory_id for each in driver.machine.members.voters]
    assert known == [directory(1), directory(2), directory(3)], "a disk that is replaced is noticed from now on"


def test_later_leaders_need_a_majority() -> None:
    members = Entry(0, 1, 1, EntryKind.MEMBERS, b"", voters(1, 2, 3))
    driver = Driver(entries=(members,), hard_state=HardState(1, 2, directory(2)))
    driver.wait(2 * TIMEOUT_MS)
    founders(driver, 2)
    founders(driver, 2)
    assert driver.machine.role is Role.LEADER


def test_the_questions_leave_only_when_the_own_vote_is_on_disk() -> None:
    driver = Driver(entries=(Entry(0, 1, 0, EntryKind.MEMBERS, b"", voters(1, 2, 3)),), syncs=False)
    pre_vote = of(driver.wait(2 * TIMEOUT_MS), Send)[0].request
    effects = driver.receive(2, VoteResponse(term=0, request_id=pre_vote.request_id, is_pre_vote=True, granted=True))
    assert of(effects, Persist)[0].hard_state == HardState(1, 1, directory(1))
    assert of(effects, Send) == []
    assert len(of(driver.sync(), Send)) == 2


def test_a_vote_is_told_only_when_it_is_on_disk() -> None:
    driver = Driver(syncs=False)
    effects = driver.receive(2, ask(1))
    assert of(effects, Persist)[0].hard_state == HardState(1, 2, directory(2))
    assert replies(effects) == []
    assert [granted(response) for response in replies(driver.sync())] == [True]


def test_one_vote_per_term_also_after_a_restart() -> None:
    driver = Driver()
    assert granted(replies(driver.receive(2, ask(1)))[0])
    assert granted(replies(driver.receive(2, ask(1)))[0]), "the same candidate may ask again"
    assert not granted(replies(driver.receive(3, ask(1)))[0])
    again = Driver(hard_state=HardState(1, 2, directory(2)))
    assert not granted(replies(again.receive(3, ask(1)))[0])
    assert granted(replies(again.receive(3, ask(2)))[0])


def test_no_vote_for_a_shorter_log() -> None:
    driver = Driver(entries=(entry(0, 1, 1), entry(1, 3, 2)))
    assert not granted(replies(driver.receive(2, ask(3, log_end=LogEnd(1, 9))))[0])
    assert not granted(replies(driver.receive(2, ask(4, log_end=LogEnd(2, 2))))[0])
    assert granted(replies(driver.receive(2, ask(5, log_end=LogEnd(2, 3))))[0])
    assert granted(replies(driver.receive(3, ask(6, log_end=LogEnd(3, 1))))[0])


def test_nobody_votes_while_a_leader_is_heard_unless_it_asked_for_it() -> None:
    driver = Driver()
    driver.append(2, 1, (0, 0))
    driver.wait(TIMEOUT_MS - 1)
    assert not granted(replies(driver.receive(3, ask(1, pre_vote=True)))[0])
    assert not granted(replies(driver.receive(3, ask(9)))[0])
    assert driver.machine.term == 1, "who was cut off does not drag the others into its term"
    assert granted(replies(driver.receive(3, ask(2, transfer=True)))[0])


def test_a_new_leader_begins_its_term_with_an_entry_and_writes_down_the_first_members() -> None:
    driver = Driver()
    effects = driver.become_leader()
    written = [each for write in of(effects, Persist) for each in write.entries]
    assert [each.kind for each in written] == [EntryKind.LEADER_CHANGE, EntryKind.MEMBERS]
    assert written[1].members == voters(1, 2, 3)
    assert {append.destination.node_id for node in (2, 3) for append in appends_to(effects, node)} == {2, 3}


def test_a_quorum_of_one_elects_itself_at_once_with_one_write() -> None:
    driver = Driver(members=voters(1), syncs=False)
    assert driver.machine.deadline_ms() == 0
    effects = driver.wait(1)
    assert driver.machine.role is Role.LEADER
    [write] = of(effects, Persist)
    assert write.hard_state is not None
    assert len(write.entries) == 2
    assert driver.machine.commit_offset == 0
    driver.sync()
    assert driver.machine.commit_offset == driver.machine.log.end_offset == 3


def test_a_leader_that_no_majority_answers_gives_up() -> None:
    driver = Driver()
    driver.become_leader()
    driver.wait(TIMEOUT_MS - HEARTBEAT_MS)
    driver.acknowledge(2, 0)
    driver.wait(TIMEOUT_MS - 1)
    assert driver.machine.role is Role.LEADER
    effects = driver.wait(TIMEOUT_MS)
    assert RoleChanged(Role.FOLLOWER, 1, -1) in effects


def test_who_is_no_voter_never_asks() -> None:
    assert Driver(node_id=4, members=voters(1, 2, 3)).wait(60_000) == []
    assert Driver(node_id=4, members=NO_MEMBERS).wait(60_000) == []


def test_a_stranger_is_refused_unless_it_is_ahead() -> None:
    driver = Driver(entries=(entry(0, 1, 1),))
    [refusal] = replies(driver.receive(9, ask(5, log_end=LogEnd(1, 1))))
    assert isinstance(refusal, RefusalResponse)
    assert "no member" in refusal.reason
    assert driver.machine.term == 1
    assert granted(replies(driver.receive(9, ask(5, log_end=LogEnd(2, 1))))[0]), (
        "its members may not have come here yet"
    )


def test_a_stranger_that_claims_to_lead_is_not_heard_while_a_leader_is() -> None:
    driver = Driver()
    driver.append(2, 1, (0, 0))
    [refusal] = replies(driver.append(9, 50, (0, 0)))
    assert isinstance(refusal, RefusalResponse)
    assert driver.machine.term == 1
    driver.wait(TIMEOUT_MS)
    [taken] = replies(driver.append(9, 50, (0, 0)))
    assert isinstance(taken, AppendResponse), "it may lead by members that have not come here yet"
    assert taken.success
    [again] = replies(driver.append(9, 50, (0, 0)))
    assert isinstance(again, AppendResponse)


def test_a_sole_voter_that_leads_never_yields_to_a_stranger() -> None:
    driver = Driver(members=voters(1))
    driver.wait(60_000)
    [refusal] = replies(driver.append(9, 2**31 - 1, (0, 0)))
    assert isinstance(refusal, RefusalResponse)
    assert (driver.machine.role, driver.machine.term) == (Role.LEADER, 1)


@pytest.mark.parametrize("source_directory", [b"z" * 16, ANY_DIRECTORY])
def test_a_known_id_with_another_disk_is_a_stranger(source_directory: bytes) -> None:
    driver = Driver()
    [refusal] = replies(driver.receive(2, ask(1), source_directory=source_directory))
    assert isinstance(refusal, RefusalResponse)
    assert "another data directory" in refusal.reason


def test_a_second_node_of_the_own_id_is_refused() -> None:
    [refusal] = replies(Driver().receive(1, ask(1), source_directory=b"z" * 16))
    assert isinstance(refusal, RefusalResponse)
    assert "another node uses the id 1" in refusal.reason


def test_the_successor_asks_at_once_and_without_a_pre_vote() -> None:
    driver = Driver()
    driver.append(2, 1, (0, 0))
    effects = driver.receive(2, TimeoutNowRequest(term=1, request_id=3))
    requests = [sent.request for sent in of(effects, Send)]
    assert all(isinstance(each, VoteRequest) and each.is_transfer and each.term == 2 for each in requests)
    assert len(requests) == 2


# -- a leader that was seen to be gone -------------------------------------------------------------------------------

TURN_MS = TIMEOUT_MS // 10


def is_pre_vote(sent: Send) -> bool:
    return isinstance(sent.request, VoteRequest) and sent.request.is_pre_vote


@pytest.mark.parametrize(("node_id", "leader", "place"), [(1, 2, 1), (3, 2, 0), (1, 3, 0), (2, 3, 1), (2, 1, 0)])
def test_a_leader_that_is_gone_is_not_waited_for_and_its_followers_ask_in_turn(
    node_id: int, leader: int, place: int
) -> None:
    driver = Driver(node_id=node_id)
    driver.append(leader, 1, (0, 0))
    driver.step(LeaderGone(leader))
    asked = driver.wait(place * TURN_MS - 1) if place else []
    assert of(asked, Send) == []
    asked = driver.wait(TURN_MS + 1)
    assert [is_pre_vote(sent) for sent in of(asked, Send)] == [True, True]


def test_who_saw_the_leader_go_votes_at_once_and_who_hears_it_does_not() -> None:
    for is_seen in (True, False):
        driver = Driver()
        driver.append(2, 1, (0, 0))
        if is_seen:
            driver.step(LeaderGone(2))
        assert granted(replies(driver.receive(3, ask(1, pre_vote=True)))[0]) is is_seen
        assert granted(replies(driver.receive(3, ask(2)))[0]) is is_seen


def test_a_hint_that_was_wrong_is_forgotten_when_the_leader_is_heard() -> None:
    driver = Driver()
    driver.append(2, 1, (0, 0))
    driver.step(LeaderGone(2))
    driver.append(2, 1, (0, 0))
    assert of(driver.wait(TIMEOUT_MS - 1), Send) == []
    assert not granted(replies(driver.receive(3, ask(9)))[0])
    assert driver.machine.term == 1


@pytest.mark.parametrize("gone", [1, 3, 9])
def test_only_the_own_leader_is_missed(gone: int) -> None:
    driver = Driver()
    driver.append(2, 1, (0, 0))
    driver.step(LeaderGone(gone))
    assert of(driver.wait(TIMEOUT_MS - 1), Send) == []


def test_a_leader_is_not_moved_by_a_hint_about_itself() -> None:
    driver = Driver()
    driver.become_leader()
    driver.step(LeaderGone(1))
    assert driver.machine.role is Role.LEADER


def test_refusals_do_not_cost_a_whole_timeout_each_but_the_hurry_ends() -> None:
    driver = Driver()
    driver.append(2, 1, (0, 0))
    driver.step(LeaderGone(2))
    begun_ms = driver.now_ms
    times_ms: list[int] = []
    while len(times_ms) < 8:
        driver.now_ms = driver.machine.deadline_ms()
        times_ms.append(driver.now_ms - begun_ms)
        driver.wait(0)
    pauses_ms = [after - before for before, after in pairwise(times_ms)]
    hurried = [pause for at, pause in zip(times_ms, pauses_ms, strict=False) if at < TIMEOUT_MS]
    assert len(hurried) >= 2
    assert all(TIMEOUT_MS // 4 <= pause < TIMEOUT_MS // 2 for pause in hurried)
    assert all(pause >= TIMEOUT_MS for pause in pauses_ms[len(hurried) :])


def test_a_learner_only_stops_to_hear_its_leader() -> None:
    driver = Driver(node_id=4, members=voters(1, 2, 3))
    driver.append(2, 1, (0, 0))
    driver.step(LeaderGone(2))
    assert of(driver.wait(60_000), Send) == []
