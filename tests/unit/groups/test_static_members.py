"""Static members (KIP-345): a restart within the session costs the group nothing."""

from __future__ import annotations

from tests.unit.groups.driver import SESSION_MS, ShardDriver, durable_view

from tidelog.groups.core.messages import Joined, Synced
from tidelog.groups.core.settings import GroupSettings
from tidelog.model.errors import ErrorCode

NONE = ErrorCode.NONE


def static_group(driver: ShardDriver, *instances: str) -> dict[str, str]:
    """A stable group; member ids by instance, the leader's first, each with its instance id as assignment."""
    tokens = {instance: driver.send_join(instance=instance)[0] for instance in instances}
    driver.advance(2)
    ids = {instance: driver.replies[token].member_id for instance, token in tokens.items()}
    leader = driver.replies[tokens[instances[0]]].leader
    assert leader == ids[instances[0]]
    for instance, member in list(ids.items())[1:]:
        driver.send_sync(member, driver.generation(), instance=instance)
    assignment = {member: instance.encode() for instance, member in ids.items()}
    driver.send_sync(leader, driver.generation(), assignment, instance=instances[0])
    assert driver.state() == "Stable"
    return ids


def test_a_static_member_needs_no_second_join() -> None:
    driver = ShardDriver()
    token, parked = driver.send_join(instance="i")
    assert parked is None
    driver.advance(2)
    assert driver.replies[token].member_id == "i-0001"


def test_a_restarted_follower_keeps_its_assignment_without_a_round() -> None:
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    written = len(driver.batches)
    _, reply = driver.send_join(instance="b")
    assert reply is not None
    assert reply == Joined(NONE, reply.member_id, 1, "consumer", "range", ids["a"])
    assert reply.member_id != ids["b"]
    assert driver.state() == "Stable"
    assert len(driver.batches) == written + 1, "the new id is written"
    assert driver.send_sync(reply.member_id, 1, instance="b")[1] == Synced(NONE, "consumer", "range", b"b")
    assert driver.heartbeat(ids["b"], 1, instance="b") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(reply.member_id, 1, instance="b") is NONE
    assert durable_view(driver.replayed()) == durable_view(driver.shard)


def test_a_restarted_leader_leads_on_and_skips_the_assignment() -> None:
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    _, reply = driver.send_join(instance="a")
    assert reply is not None
    assert reply.skip_assignment
    assert reply.leader == reply.member_id
    assert {m[0] for m in reply.members} == {reply.member_id, ids["b"]}
    assert driver.send_sync(reply.member_id, 1, instance="a")[1] == Synced(NONE, "consumer", "range", b"a")


def test_before_version_9_a_restarted_leader_is_told_that_its_old_self_leads() -> None:
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    _, reply = driver.send_join(instance="a", version=8)
    assert reply is not None
    assert (reply.leader, reply.members, reply.skip_assignment) == (ids["a"], (), False)
    assert driver.shard.groups["g"].leader == reply.member_id


def test_a_restart_that_cannot_be_written_leaves_the_old_member_in() -> None:
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    driver.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    _, reply = driver.send_join(instance="b")
    assert reply == Joined(ErrorCode.COORDINATOR_NOT_AVAILABLE, "", 1, "consumer", "range", ids["a"])
    assert driver.heartbeat(ids["b"], 1, instance="b") is NONE
    driver.advance(SESSION_MS - 1)
    assert driver.heartbeat(ids["b"], 1, instance="b") is NONE


def test_a_restart_that_changes_the_protocol_starts_a_round() -> None:
    driver = ShardDriver()
    both = [("range", b""), ("sticky", b"")]
    tokens = [driver.send_join(instance=i, protocols=both)[0] for i in ("a", "b", "c")]
    driver.advance(2)
    leader = driver.replies[tokens[0]].leader
    driver.send_sync(leader, 1, instance="a")
    assert driver.send_join(instance="b", protocols=[("sticky", b"")])[1] is None
    assert driver.state() == "PreparingRebalance"


def test_a_restart_keeps_all_protocols_the_member_offers() -> None:
    driver = ShardDriver()
    both = (("range", b""), ("sticky", b""))
    tokens = [driver.send_join(instance=i, protocols=both)[0] for i in ("a", "b")]
    driver.advance(2)
    driver.send_sync(driver.replies[tokens[0]].leader, 1, instance="a")
    _, reply = driver.send_join(instance="b", protocols=both)
    assert reply is not None
    assert driver.shard.groups["g"].members[reply.member_id].protocols == both


def test_a_restart_while_the_assignment_is_awaited_starts_a_round() -> None:
    driver = ShardDriver()
    tokens = {i: driver.send_join(instance=i)[0] for i in ("a", "b")}
    driver.advance(2)
    old = driver.replies[tokens["b"]].member_id
    sync_token, _ = driver.send_sync(old, 1, instance="b")
    assert driver.send_join(instance="b")[1] is None
    assert driver.replies[sync_token] == Synced(ErrorCode.FENCED_INSTANCE_ID)
    assert driver.state() == "PreparingRebalance"


def test_a_restart_while_members_join_fences_the_older_join() -> None:
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    old_token, _ = driver.send_join(ids["b"], instance="b", protocols=[("range", b"new")])
    new_token, parked = driver.send_join(instance="b")
    assert parked is None
    assert driver.replies[old_token] == Joined(ErrorCode.FENCED_INSTANCE_ID, ids["b"])
    driver.send_join(ids["a"], instance="a")
    assert driver.replies[new_token].error is NONE


def test_two_with_the_same_instance_id_fence_each_other() -> None:
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    for call in (
        driver.send_join(ids["a"], instance="b")[1],
        driver.send_sync(ids["a"], 1, instance="b")[1],
    ):
        assert call is not None
        assert call.error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(ids["a"], 1, instance="b") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(ids["a"], 1, instance="nobody") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_that_do_not_rejoin_stay_until_their_session_ends() -> None:
    driver = ShardDriver()
    tokens = {i: driver.send_join(instance=i, session_ms=200_000, rebalance_ms=10_000)[0] for i in ("a", "b")}
    driver.advance(2)
    ids = {i: driver.replies[token].member_id for i, token in tokens.items()}
    driver.send_sync(ids["b"], 1, instance="b")
    driver.send_sync(ids["a"], 1, instance="a")
    token, _ = driver.send_join(ids["a"], instance="a", session_ms=200_000, rebalance_ms=10_000)
    driver.advance(10_000)
    assert driver.replies[token].generation == 2
    assert {instance_id for _, instance_id, _ in driver.replies[token].members} == {"a", "b"}


def test_a_round_that_no_static_member_comes_to_is_prolonged() -> None:
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    driver.leave(ids["a"])
    assert driver.state() == "PreparingRebalance"
    assert driver.shard.groups["g"].leader == ids["b"]
    driver.heartbeat(ids["b"], 1, instance="b")
    driver.advance(SESSION_MS - 1)
    assert driver.state() == "PreparingRebalance"
    driver.advance(1)
    assert driver.state() == "Empty"


def test_a_round_of_static_members_that_leave_it_no_time_is_not_prolonged_all_the_time() -> None:
    driver = ShardDriver(GroupSettings(initial_rebalance_delay_ms=0))
    token, _ = driver.send_join(instance="i", rebalance_ms=0)
    driver.send_sync(driver.replies[token].member_id, 1)
    dynamic, _ = driver.join_known(rebalance_ms=0)
    driver.leave(dynamic)
    for _ in range(5):
        deadline_ms = driver.shard.deadline_ms()
        assert deadline_ms is not None
        driver.ticks_ms = max(deadline_ms, driver.ticks_ms)
        driver.perform(driver.shard.decide_deadlines(driver.now))
    assert driver.ticks_ms >= 1000
    driver.advance(SESSION_MS)
    assert driver.state() == "Empty"


def test_an_administrator_removes_by_instance_id() -> None:
    driver = ShardDriver()
    static_group(driver, "a", "b")
    left = driver.leave(("", "b"), ("", "nobody"), ("", None))
    assert [member.error for member in left.members] == [NONE] + [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert left.members[0].instance_id == "b"
    assert driver.state() == "PreparingRebalance"


def test_leaving_with_the_wrong_member_id_is_fenced() -> None:
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    assert driver.leave((ids["a"], "b")).members[0].error is ErrorCode.FENCED_INSTANCE_ID


def test_static_members_survive_a_restart_of_the_node() -> None:
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    driver.crash()
    assert driver.heartbeat(ids["b"], 1, instance="b") is NONE
    _, reply = driver.send_join(instance="b")
    assert reply is not None
    assert driver.send_sync(reply.member_id, 1, instance="b")[1] == Synced(NONE, "consumer", "range", b"b")
