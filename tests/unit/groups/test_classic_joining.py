"""Joining a classic group: ids, rounds, delays, limits, protocols."""

from __future__ import annotations

import pytest
from tests.unit.groups.driver import REBALANCE_MS, SESSION_MS, ShardDriver, subscription

from tidelog.groups.core.messages import Joined
from tidelog.groups.core.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from tidelog.model.errors import ErrorCode


def test_a_new_member_is_told_its_id_first() -> None:
    driver = ShardDriver()
    _, reply = driver.send_join(client="reader")
    assert reply == Joined(ErrorCode.MEMBER_ID_REQUIRED, "reader-0001")
    assert driver.state() == "Empty"
    token, parked = driver.send_join("reader-0001")
    assert parked is None
    driver.advance(2)
    assert driver.replies[token] == Joined(
        ErrorCode.NONE,
        "reader-0001",
        1,
        "consumer",
        "range",
        "reader-0001",
        [("reader-0001", None, b"")],
    )
    assert driver.state() == "CompletingRebalance"


def test_before_version_4_a_new_member_is_in_at_once() -> None:
    driver = ShardDriver()
    token, parked = driver.send_join(version=3)
    assert parked is None
    driver.advance(2)
    assert driver.replies[token].generation == 1


def test_an_id_that_was_handed_out_but_not_used_expires_and_leaves_no_trace() -> None:
    driver = ShardDriver()
    driver.send_join()
    driver.advance(SESSION_MS - 1)
    assert driver.state() == "Empty"
    driver.advance(1)
    assert driver.state() == "missing"
    assert driver.send_join("client-0001")[1] == Joined(ErrorCode.UNKNOWN_MEMBER_ID, "client-0001")
    assert driver.log == []


def test_a_made_up_member_id_is_unknown() -> None:
    driver = ShardDriver()
    assert driver.send_join("nobody")[1] == Joined(ErrorCode.UNKNOWN_MEMBER_ID, "nobody")
    driver.form_group()
    assert driver.send_join("nobody")[1] == Joined(ErrorCode.UNKNOWN_MEMBER_ID, "nobody")
    assert driver.state() == "Stable"


def test_a_pending_id_with_an_instance_id_is_refused() -> None:
    driver = ShardDriver()
    _, reply = driver.send_join()
    assert reply is not None
    assert driver.send_join(reply.member_id, instance="i")[1] == Joined(ErrorCode.UNKNOWN_MEMBER_ID, reply.member_id)


def test_a_huge_client_id_makes_a_member_id_that_fits() -> None:
    _, reply = ShardDriver().send_join(client="x" * 32_000)
    assert reply is not None
    assert len(reply.member_id) < 2000


def test_the_initial_delay_is_stretched_by_each_newcomer_up_to_the_rebalance_timeout() -> None:
    driver = ShardDriver(GroupSettings(initial_rebalance_delay_ms=3000))
    first, first_token = driver.join_known(rebalance_ms=7000)
    driver.advance(2999)
    second, second_token = driver.join_known(rebalance_ms=7000)
    driver.advance(1)
    assert driver.replies == {}, "somebody came within the first delay, so it begins again"
    driver.advance(2000)
    third, third_token = driver.join_known(rebalance_ms=7000)
    driver.advance(1000)
    assert driver.replies == {}, "and again"
    driver.advance(1000)
    replies = [driver.replies[token] for token in (first_token, second_token, third_token)]
    assert {reply.generation for reply in replies} == {1}
    assert [m[0] for m in replies[0].members] == [first, second, third]
    assert replies[1].members == ()
    assert driver.ticks_ms == 7000


def test_the_initial_delay_ends_when_nobody_else_came() -> None:
    driver = ShardDriver(GroupSettings(initial_rebalance_delay_ms=3000))
    _, token = driver.join_known()
    driver.advance(2999)
    assert driver.replies == {}
    driver.advance(1)
    assert driver.replies[token].error is ErrorCode.NONE


def test_a_newcomer_to_a_stable_group_waits_until_the_others_have_rejoined() -> None:
    driver = ShardDriver()
    (leader,) = driver.form_group()
    newcomer, token = driver.join_known()
    assert driver.state() == "PreparingRebalance"
    assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    leader_token, parked = driver.send_join(leader)
    assert parked is None
    assert driver.replies[token].generation == 2
    assert driver.replies[leader_token].leader == leader
    assert [m[0] for m in driver.replies[leader_token].members] == [leader, newcomer]
    assert driver.replies[token].members == ()


def test_members_that_do_not_rejoin_in_time_are_left_out() -> None:
    driver = ShardDriver()
    leader, other = driver.form_group(members=2, session_ms=1_000_000)
    newcomer, token = driver.join_known()
    driver.send_join(other)
    driver.advance(REBALANCE_MS - 1)
    assert token not in driver.replies
    driver.advance(1)
    reply = driver.replies[token]
    assert reply.leader == other, "the leader did not come back, so another one leads"
    assert set(driver.shard.groups["g"].members) == {other, newcomer}
    assert driver.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_whose_join_is_never_completed_is_dropped_after_five_minutes() -> None:
    driver = ShardDriver()
    (_leader,) = driver.form_group(session_ms=1_800_000, rebalance_ms=1_000_000)
    newcomer, token = driver.join_known()
    driver.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert driver.replies[token] == Joined(ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert newcomer not in driver.shard.groups["g"].members


def test_a_follower_that_lost_its_reply_is_told_again() -> None:
    driver = ShardDriver()
    leader, other = driver.form_group(members=2)
    _, reply = driver.send_join(other)
    assert reply == Joined(ErrorCode.NONE, other, 1, "consumer", "range", leader)
    assert driver.state() == "Stable"


def test_the_leader_can_ask_for_a_new_round() -> None:
    driver = ShardDriver()
    leader, _other = driver.form_group(members=2)
    assert driver.send_join(leader)[1] is None
    assert driver.state() == "PreparingRebalance"


def test_a_follower_with_new_metadata_starts_a_round() -> None:
    driver = ShardDriver()
    _, other = driver.form_group(members=2)
    assert driver.send_join(other, protocols=[("range", b"changed")])[1] is None
    assert driver.state() == "PreparingRebalance"


def test_while_the_assignment_is_awaited_a_lost_reply_is_repeated_and_a_change_starts_over() -> None:
    driver = ShardDriver()
    member, token = driver.join_known()
    driver.advance(2)
    first = driver.replies[token]
    assert driver.send_join(member)[1] == first
    assert driver.send_join(member, protocols=[("range", b"changed")])[1] is None
    assert driver.generation() == 2


def test_a_second_join_of_a_waiting_member_takes_the_place_of_the_first() -> None:
    driver = ShardDriver()
    (leader,) = driver.form_group()
    newcomer, first = driver.join_known()
    second, parked = driver.send_join(newcomer)
    assert parked is None
    assert driver.replies[first] == Joined(ErrorCode.REBALANCE_IN_PROGRESS, newcomer)
    driver.send_join(leader)
    assert driver.replies[second].error is ErrorCode.NONE


def test_the_group_speaks_what_all_members_speak_and_most_prefer() -> None:
    driver = ShardDriver()
    tokens = [
        driver.join_known(protocols=[("range", b"r"), ("sticky", b"s"), ("only-here", b"")])[1],
        driver.join_known(protocols=[("sticky", b"s"), ("range", b"r")])[1],
        driver.join_known(protocols=[("sticky", b"s"), ("range", b"r")])[1],
    ]
    driver.advance(2)
    assert {driver.replies[token].protocol for token in tokens} == {"sticky"}
    assert [metadata for _, _, metadata in driver.replies[tokens[0]].members] == [b"s"] * 3


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", [("range", b"")]), ("consumer", [("other", b"")]), ("consumer", [])],
)
def test_who_speaks_nothing_in_common_stays_out(protocol_type: str, protocols: list[tuple[str, bytes]]) -> None:
    driver = ShardDriver()
    driver.form_group()
    _, reply = driver.send_join(protocol_type=protocol_type, protocols=protocols)
    assert reply == Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert driver.state() == "Stable"


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", [("range", b"")]), ("consumer", [])])
def test_an_empty_group_needs_a_type_and_a_protocol(protocol_type: str, protocols: list[tuple[str, bytes]]) -> None:
    driver = ShardDriver()
    _, reply = driver.send_join(protocol_type=protocol_type, protocols=protocols)
    assert reply == Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert driver.state() == "missing"


def test_a_full_group_takes_nobody_in() -> None:
    driver = ShardDriver(GroupSettings(initial_rebalance_delay_ms=1, max_size=2))
    _leader, other = driver.form_group(members=2)
    assert driver.send_join()[1] == Joined(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.state() == "Stable"
    assert driver.send_join(other)[1] is not None, "who is in may rejoin"


def test_a_limit_that_was_lowered_turns_away_the_last_to_come_back() -> None:
    driver = ShardDriver()
    members = driver.form_group(members=3)
    driver.settings = GroupSettings(initial_rebalance_delay_ms=1, max_size=2)
    driver.crash()
    assert driver.state() == "PreparingRebalance"
    tokens = [driver.send_join(member)[0] for member in members[:2]]
    assert driver.send_join(members[2])[1] == Joined(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.send_join(members[0])[1] is None, "who waits already may ask again"
    assert driver.replies[tokens[1]].generation == 2
    assert set(driver.shard.groups["g"].members) == set(members[:2])


def test_subscribed_topics_are_known_from_the_members() -> None:
    driver = ShardDriver()
    protocols = [("range", subscription("orders", "bills"))]
    driver.form_group(protocols=protocols)
    group = driver.shard.groups["g"]
    assert group.subscribed_topics == {"orders", "bills"}
    assert driver.replayed().groups["g"].subscribed_topics == {"orders", "bills"}


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\x00\x09abc", b"\x00\x00\xff\xff\xff\xff",
     b"\x00\x00\x00\x00\x00\x01\x00\x02\xff\xfe"],
)  # fmt: skip
def test_a_subscription_that_makes_no_sense_is_no_subscription(metadata: bytes) -> None:
    driver = ShardDriver()
    driver.form_group(protocols=[("range", metadata)])
    assert driver.shard.groups["g"].subscribed_topics is None


def test_without_an_initial_delay_the_first_is_answered_at_once() -> None:
    driver = ShardDriver(GroupSettings(initial_rebalance_delay_ms=0))
    _, token = driver.join_known()
    assert (driver.replies[token].error, driver.replies[token].generation) == (ErrorCode.NONE, 1)
    assert driver.state() == "CompletingRebalance"
