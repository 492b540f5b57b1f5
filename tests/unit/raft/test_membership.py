"""Members that come, catch up, vote and go."""

from __future__ import annotations

from tests.unit.raft.driver import HEARTBEAT_MS, TIMEOUT_MS, Driver, appends_to, directory, entry, member, of, voters

from tidelog.model.errors import ErrorCode
from tidelog.raft.core.effects import Done, Effect, MembersChanged, Refused, Role, Send
from tidelog.raft.core.events import AddLearner, AddVoter, RemoveMember
from tidelog.raft.core.members import ANY_DIRECTORY, Member, MemberSet
from tidelog.raft.core.messages import Entry, EntryKind, TimeoutNowRequest


def leader(members: MemberSet | None = None) -> Driver:
    driver = Driver(members=members)
    driver.become_leader()
    acknowledge_all(driver)
    return driver


def acknowledge_all(driver: Driver) -> list[Effect]:
    effects: list[Effect] = []
    for node_id in list(driver.machine.progress):
        effects += driver.acknowledge(node_id, driver.machine.log.end_offset)
    return effects


def refusal(effects: list[Effect]) -> Refused:
    [found] = of(effects, Refused)
    return found


def test_a_new_voter_learns_first() -> None:
    driver = leader()
    effects = driver.step(AddVoter("add", member(4), 10_000))
    assert of(effects, MembersChanged)[0].members.learners == (member(4),)
    assert appends_to(effects, 4), "it is sent the log"
    driver.acknowledge(2, driver.machine.log.end_offset)
    assert not driver.machine.members.is_voter(4), "it has nothing yet"
    driver.acknowledge(4, driver.machine.log.end_offset)
    assert driver.machine.members.voter_ids == (1, 2, 3, 4)
    assert Done("add", driver.machine.log.end_offset) in acknowledge_all(driver)


def test_a_learner_does_not_count() -> None:
    driver = leader()
    driver.step(AddLearner("add", member(4)))
    driver.acknowledge(4, driver.machine.log.end_offset)
    assert driver.machine.commit_offset < driver.machine.log.end_offset
    assert Done("add", driver.machine.log.end_offset) in driver.acknowledge(2, driver.machine.log.end_offset)


def test_a_learner_that_does_not_catch_up_stays_one() -> None:
    driver = leader()
    driver.step(AddVoter("add", member(4), 3000))
    for _ in range(3000 // HEARTBEAT_MS + 1):
        effects = driver.wait(HEARTBEAT_MS)
        for node_id in (2, 3):
            driver.acknowledge(node_id, driver.machine.log.end_offset)
        if of(effects, Refused):
            break
    assert refusal(effects).code == ErrorCode.REQUEST_TIMED_OUT
    assert driver.machine.members.is_learner(4)


def test_one_change_at_a_time() -> None:
    driver = leader()
    driver.step(AddLearner("first", member(4)))
    assert refusal(driver.step(RemoveMember("second", 3))).code == ErrorCode.REQUEST_TIMED_OUT
    acknowledge_all(driver)
    assert of(driver.step(RemoveMember("third", 3)), Refused) == []


def test_no_change_before_the_first_commit_of_the_term() -> None:
    driver = Driver()
    driver.become_leader()
    assert refusal(driver.step(RemoveMember("remove", 3))).code == ErrorCode.REQUEST_TIMED_OUT


def test_a_member_that_is_not_there_and_the_last_voter_cannot_be_removed() -> None:
    assert refusal(leader().step(RemoveMember("remove", 9))).code == ErrorCode.VOTER_NOT_FOUND
    alone = Driver(members=voters(1))
    alone.wait(1)
    assert refusal(alone.step(RemoveMember("remove", 1))).code == ErrorCode.INVALID_REQUEST


def test_a_voter_is_not_added_twice() -> None:
    assert refusal(leader().step(AddVoter("add", member(2), 1000))).code == ErrorCode.DUPLICATE_VOTER
    assert refusal(leader().step(AddLearner("add", member(2)))).code == ErrorCode.DUPLICATE_VOTER


def test_a_known_id_with_a_new_disk_loses_its_vote_before_it_gets_one_again() -> None:
    driver = leader()
    replacement = Member(3, b"n" * 16, "host3", 9092)
    driver.step(AddVoter("replace", replacement, 10_000))
    assert driver.machine.members.voter_ids == (1, 2)
    assert driver.machine.progress[3].match_offset == 0, "what the old disk had does not count for the new one"
    driver.acknowledge(2, driver.machine.log.end_offset)
    assert driver.machine.members.voter_ids == (1, 2)


def test_a_removed_leader_leads_until_that_is_committed_and_then_hands_over() -> None:
    driver = leader()
    driver.step(RemoveMember("remove", 1))
    assert driver.machine.role is Role.LEADER
    end = driver.machine.log.end_offset
    assert driver.machine.commit_offset < end
    driver.acknowledge(2, end)
    assert driver.machine.commit_offset < end, "two of the two that are left must have it"
    effects = driver.acknowledge(3, end)
    assert Done("remove", end) in effects
    assert any(isinstance(sent.request, TimeoutNowRequest) for sent in of(effects, Send))
    assert driver.machine.role is Role.FOLLOWER
    assert of(driver.wait(60_000), Send) == [], "it is no voter any more"


def test_a_removal_that_is_not_committed_does_not_keep_its_only_possible_leader_from_asking() -> None:
    joined = Entry(1, 3, 1, EntryKind.MEMBERS, b"", voters(1, 2, 3))
    removal = Entry(3, 5, 1, EntryKind.MEMBERS, b"", voters(2, 3))
    driver = Driver(members=voters(2), entries=(entry(0, 1, 1), joined, removal))
    assert not driver.machine.is_voter
    assert of(driver.wait(2 * TIMEOUT_MS), Send)
    driver.append(2, 1, (5, 1), commit=5)
    assert of(driver.wait(60_000), Send) == [], "now it is known to be removed"


def test_a_configuration_that_is_cut_is_no_longer_in_force() -> None:
    added = Entry(1, 3, 1, EntryKind.MEMBERS, b"", voters(1, 2, 3, 4))
    driver = Driver(entries=(entry(0, 1, 1), added))
    assert driver.machine.members.is_voter(4)
    effects = driver.append(2, 2, (1, 1), entry(1, 2, 2))
    assert driver.machine.members == voters(1, 2, 3)
    assert MembersChanged(voters(1, 2, 3)) in effects


def test_directories_are_written_down_as_they_are_heard_of() -> None:
    unnamed = MemberSet(tuple(Member(node_id, ANY_DIRECTORY, f"host{node_id}", 9092) for node_id in (1, 2, 3)))
    driver = leader(unnamed)
    acknowledge_all(driver)
    acknowledge_all(driver)
    assert [each.directory_id for each in driver.machine.members.voters] == [directory(1), directory(2), directory(3)]


def test_the_directory_of_a_late_member_is_written_down_without_any_other_change() -> None:
    unnamed = MemberSet(tuple(Member(node_id, ANY_DIRECTORY, f"host{node_id}", 9092) for node_id in (1, 2, 3)))
    # As a cluster was founded when a majority was enough.
    driver = Driver(entries=(Entry(0, 1, 1, EntryKind.MEMBERS, b"", unnamed),))
    driver.become_leader()
    for _ in range(3):
        driver.acknowledge(2, driver.machine.log.end_offset)
    known = [each.directory_id for each in driver.machine.members.voters]
    assert known == [directory(1), directory(2), ANY_DIRECTORY]
    driver.acknowledge(3, driver.machine.log.end_offset)
    assert driver.machine.members.voters[2].directory_id == directory(3)
