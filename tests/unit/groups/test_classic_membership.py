"""Syncing, staying alive and leaving, in every state a group can be in."""

from __future__ import annotations

import pytest
from tests.unit.groups.driver import REBALANCE_MS, SESSION_MS, START_WALL_MS, ShardDriver

from tidelog.groups.core.messages import Joined, Left, LeftMember, Synced
from tidelog.groups.core.records import GroupMetadataRecord, StoredGroup, StoredMember
from tidelog.model.errors import ErrorCode

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def completing(driver: ShardDriver, members: int = 2) -> list[str]:
    """A group that has formed generation 1 and waits for the assignment; the leader first."""
    joins = [driver.join_known() for _ in range(members)]
    driver.advance(2)
    assert driver.state() == "CompletingRebalance"
    return [member_id for member_id, _ in joins]


# -- sync -------------------------------------------------------------------------------------------------------------


def test_the_leaders_assignment_is_written_and_given_to_all() -> None:
    driver = ShardDriver()
    leader, other = completing(driver)
    follower_token, parked = driver.send_sync(other, 1)
    assert parked is None
    assert driver.replies.keys().isdisjoint({follower_token})
    driver.ticks_ms += 5
    leader_token, parked = driver.send_sync(leader, 1, {leader: b"L", other: b"O"})
    assert parked is None
    assert driver.replies[leader_token] == Synced(NONE, "consumer", "range", b"L")
    assert driver.replies[follower_token] == Synced(NONE, "consumer", "range", b"O")
    assert driver.state() == "Stable"
    assert driver.batches == [
        [
            GroupMetadataRecord(
                "g",
                StoredGroup(
                    "consumer",
                    1,
                    "range",
                    leader,
                    driver.now.wall_ms,
                    (
                        StoredMember(leader, None, "client", "/127.0.0.1", REBALANCE_MS, SESSION_MS, b"", b"L"),
                        StoredMember(other, None, "client", "/127.0.0.1", REBALANCE_MS, SESSION_MS, b"", b"O"),
                    ),
                ),
            )
        ]
    ]


def test_a_late_follower_is_answered_from_the_stable_group() -> None:
    driver = ShardDriver()
    leader, other = completing(driver)
    driver.send_sync(leader, 1, {other: b"O"})
    assert driver.send_sync(other, 1)[1] == Synced(NONE, "consumer", "range", b"O")
    assert driver.send_sync(leader, 1)[1] == Synced(NONE, "consumer", "range", b""), "it assigned itself nothing"


def test_syncs_that_fit_nothing() -> None:
    driver = ShardDriver()
    assert driver.send_sync("m", 1)[1] == Synced(UNKNOWN), "no such group"
    driver.send_join()
    assert driver.send_sync("client-0001", 0)[1] == Synced(UNKNOWN), "an empty group"
    leader, _ = completing(driver)
    assert driver.send_sync("nobody", 1)[1] == Synced(UNKNOWN)
    assert driver.send_sync(leader, 0)[1] == Synced(ErrorCode.ILLEGAL_GENERATION)
    assert driver.send_sync(leader, 2)[1] == Synced(ErrorCode.ILLEGAL_GENERATION)
    wrong = Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert driver.send_sync(leader, 1, protocol_type="connect")[1] == wrong
    assert driver.send_sync(leader, 1, protocol="sticky")[1] == wrong
    assert driver.send_sync(leader, 1, protocol_type="consumer", protocol="range")[1] is None


def test_a_sync_in_the_next_round_is_sent_back_to_join() -> None:
    driver = ShardDriver()
    leader, _other = driver.form_group(members=2)
    driver.join_known()
    assert driver.send_sync(leader, 1)[1] == Synced(ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_second_sync_takes_the_place_of_the_first() -> None:
    driver = ShardDriver()
    leader, other = completing(driver)
    first, _ = driver.send_sync(other, 1)
    second, _ = driver.send_sync(other, 1)
    assert driver.replies[first] == Synced(ErrorCode.REBALANCE_IN_PROGRESS)
    driver.send_sync(leader, 1)
    assert driver.replies[second].error is NONE


def test_parked_syncs_are_sent_back_when_a_new_round_begins() -> None:
    driver = ShardDriver()
    _, other = completing(driver)
    token, _ = driver.send_sync(other, 1)
    driver.join_known()
    assert driver.replies[token] == Synced(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.state() == "PreparingRebalance"


def test_members_that_never_sync_are_put_out() -> None:
    driver = ShardDriver()
    leader, other = completing(driver)
    driver.send_sync(leader, 1, {leader: b"all"})
    for _ in range(REBALANCE_MS // SESSION_MS):
        driver.advance(SESSION_MS - 1)
        assert driver.heartbeat(leader, 1) in (NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        driver.heartbeat(other, 1)
    driver.advance(REBALANCE_MS // SESSION_MS)
    assert driver.state() == "PreparingRebalance"
    assert driver.heartbeat(other, 1) is UNKNOWN, "heartbeats alone do not keep it in"
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_syncs_is_put_out_and_the_others_begin_again() -> None:
    driver = ShardDriver()
    leader, other = completing(driver)
    token, _ = driver.send_sync(other, 1)
    for _ in range(REBALANCE_MS // SESSION_MS):
        driver.advance(SESSION_MS - 1)
        driver.heartbeat(leader, 1)
    driver.advance(REBALANCE_MS // SESSION_MS)
    assert driver.replies[token] == Synced(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driver.heartbeat(leader, 1) is UNKNOWN


def test_when_the_assignment_cannot_be_written_everyone_hears_of_it_and_joins_again() -> None:
    driver = ShardDriver()
    leader, other = completing(driver)
    token, _ = driver.send_sync(other, 1)
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    leader_token, _ = driver.send_sync(leader, 1, {leader: b"L"})
    assert driver.replies[token] == driver.replies[leader_token] == Synced(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert driver.state() == "PreparingRebalance"
    driver.append_error = None
    joins = [driver.send_join(member)[0] for member in (leader, other)]
    assert {driver.replies[join].generation for join in joins} == {2}


def test_an_assignment_for_strangers_is_dropped() -> None:
    driver = ShardDriver()
    leader, _ = completing(driver)
    driver.send_sync(leader, 1, {"stranger": b"?", leader: b"L"})
    assert {m.assignment for m in driver.shard.groups["g"].members.values()} == {b"L", b""}


def test_replaying_a_later_generation_takes_over_what_members_changed() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group(protocols=[("range", b"old"), ("sticky", b"")])
    driver.send_join(member, protocols=[("sticky", b""), ("range", b"new")])
    driver.send_sync(member, 2, {member: b"A"})
    assert driver.state() == "Stable"
    replayed = driver.replayed().groups["g"].members[member]
    assert (replayed.protocols, replayed.assignment) == ((("sticky", b""),), b"A")


# -- heartbeat and session --------------------------------------------------------------------------------------------


def test_heartbeats_keep_a_member_alive_and_silence_ends_it() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group()
    for _ in range(10):
        driver.advance(SESSION_MS - 1)
        assert driver.heartbeat(member, 1) is NONE
    driver.advance(SESSION_MS)
    assert driver.state() == "Empty"
    assert driver.heartbeat(member, 1) is UNKNOWN
    assert driver.batches[-1][0] == GroupMetadataRecord(
        "g", StoredGroup("consumer", 2, None, None, START_WALL_MS + driver.ticks_ms, ())
    )


def test_heartbeats_that_fit_nothing() -> None:
    driver = ShardDriver()
    assert driver.heartbeat("m", 1) is UNKNOWN
    (member,) = driver.form_group()
    assert driver.heartbeat("stranger", 1) is UNKNOWN
    assert driver.heartbeat(member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat(member, 2) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat(member, 1, instance="i") is UNKNOWN


def test_a_member_may_heartbeat_while_the_assignment_is_awaited() -> None:
    driver = ShardDriver()
    leader, _ = completing(driver)
    assert driver.heartbeat(leader, 1) is NONE


def test_waiting_for_a_join_keeps_an_old_member_alive() -> None:
    driver = ShardDriver()
    leader, other = driver.form_group(members=2)
    token, _ = driver.send_join(leader)
    for _ in range(3):
        driver.advance(SESSION_MS - 1)
        driver.heartbeat(other, 1)
    assert token not in driver.replies
    assert leader in driver.shard.groups["g"].members
    driver.send_join(other)
    assert driver.replies[token].error is NONE


def test_when_the_last_missing_member_expires_the_round_completes() -> None:
    driver = ShardDriver()
    leader, _other = driver.form_group(members=2)
    token, _ = driver.send_join(leader)
    driver.advance(SESSION_MS)
    assert driver.replies[token].generation == 2
    assert set(driver.shard.groups["g"].members) == {leader}


def test_a_lost_member_of_a_stable_group_starts_a_round() -> None:
    driver = ShardDriver()
    leader, other = driver.form_group(members=2)
    driver.advance(SESSION_MS - 1)
    driver.heartbeat(leader, 1)
    driver.advance(1)
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(other, 1) is UNKNOWN


def test_sessions_begin_anew_after_a_restart() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group()
    driver.advance(SESSION_MS - 1)
    driver.crash()
    driver.advance(SESSION_MS - 1)
    assert driver.heartbeat(member, 1) is NONE
    driver.advance(SESSION_MS)
    assert driver.state() == "Empty"


def test_becoming_empty_is_tried_again_when_it_cannot_be_written() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group()
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.leave(member) == Left(NONE, [LeftMember(member, None, NONE)])
    assert driver.state() == "PreparingRebalance"
    driver.advance(5000)
    driver.append_error = None
    driver.advance(1000)
    assert driver.state() == "Empty"
    assert driver.generation() == 2


# -- leaving ----------------------------------------------------------------------------------------------------------


def test_the_last_member_to_leave_empties_the_group() -> None:
    driver = ShardDriver()
    (member,) = driver.form_group()
    assert driver.leave(member) == Left(NONE, [LeftMember(member, None, NONE)])
    assert driver.state() == "Empty"
    assert driver.generation() == 2
    assert driver.leave(member) == Left(NONE, [LeftMember(member, None, UNKNOWN)])


def test_leaving_a_group_that_does_not_exist() -> None:
    assert ShardDriver().leave("m") == Left(NONE, [LeftMember("m", None, UNKNOWN)])


def test_several_leave_at_once_and_each_has_its_own_result() -> None:
    driver = ShardDriver()
    leader, second, third = driver.form_group(members=3)
    left = driver.leave(second, "stranger", third)
    assert [member.error for member in left.members] == [NONE, UNKNOWN, NONE]
    assert driver.state() == "PreparingRebalance"
    token, _ = driver.send_join(leader)
    assert driver.replies[token].generation == 2, "one round for both"


def test_one_who_leaves_while_it_waits_is_answered() -> None:
    driver = ShardDriver()
    (_leader,) = driver.form_group()
    newcomer, token = driver.join_known()
    driver.leave(newcomer)
    assert driver.replies[token] == Joined(UNKNOWN, "")


def test_one_who_leaves_while_it_waits_for_its_assignment_is_answered() -> None:
    driver = ShardDriver()
    _, other = completing(driver)
    token, _ = driver.send_sync(other, 1)
    driver.leave(other)
    assert driver.replies[token] == Synced(UNKNOWN)


def test_a_handed_out_id_can_leave() -> None:
    driver = ShardDriver()
    (leader,) = driver.form_group()
    token, _ = driver.send_join(leader, protocols=[("range", b"x")])
    assert driver.replies[token].generation == 2
    _, reply = driver.send_join()
    assert reply is not None
    driver.send_join(leader)
    assert driver.state() == "PreparingRebalance", "the id that was handed out is waited for"
    assert driver.leave(reply.member_id).members[0].error is NONE
    assert driver.generation() == 3


def test_a_leader_that_leaves_hands_over() -> None:
    driver = ShardDriver()
    leader, other = driver.form_group(members=2)
    driver.leave(leader)
    token, _ = driver.send_join(other)
    assert driver.replies[token].leader == other
    assert [m[0] for m in driver.replies[token].members] == [other]


@pytest.mark.parametrize("members", [1, 2, 5])
def test_nobody_is_left_waiting_when_everybody_leaves(members: int) -> None:
    driver = ShardDriver()
    ids = driver.form_group(members=members)
    tokens = [driver.send_join(member, protocols=[("range", b"new")])[0] for member in ids[:-1]]
    driver.leave(*ids)
    assert driver.state() == "Empty"
    assert all(token in driver.replies for token in tokens)
