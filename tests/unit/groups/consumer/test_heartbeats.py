"""Consumer groups: heartbeats in, records and replies out."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pytest
from tests.unit.groups.consumer.driver import (
    REVOKE_MS,
    SESSION_MS,
    Consumer,
    ConsumerDriver,
    consumer_view,
    settle,
    topic_id,
)

from tidelog.groups.core.consumer.messages import HeartbeatReply
from tidelog.groups.core.consumer.patterns import matching_topics
from tidelog.groups.core.consumer.records import (
    CurrentRecord,
    GroupEpochRecord,
    PatternRecord,
    SubscriptionRecord,
    TargetEpochRecord,
    TargetRecord,
)
from tidelog.groups.core.messages import Commit, DeleteOffsets, FetchOffsets, OffsetToCommit, TransactionalCommit
from tidelog.groups.core.settings import GroupSettings
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.limits import PATTERNS_PER_GROUP_MAX

T, U = topic_id("t"), topic_id("u")


@pytest.fixture
def driver() -> ConsumerDriver:
    return ConsumerDriver({"t": 4, "u": 2})


def refused(driver: ConsumerDriver, member: str, epoch: int, **fields: Any) -> ErrorCode:
    with pytest.raises(BrokerError) as caught:
        driver.send(member, epoch, **fields)
    return caught.value.code


def pair(driver: ConsumerDriver, **fields: Any) -> tuple[Consumer, Consumer]:
    first, second = Consumer(driver, "a", "t", **fields), Consumer(driver, "b", "t", **fields)
    first.join()
    second.join()
    settle(first, second)
    return first, second


def told(reply: HeartbeatReply) -> tuple[str, int, int, object, ErrorCode]:
    return reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms, reply.assignment, reply.error


def test_a_join_is_one_batch(driver: ConsumerDriver) -> None:
    reply = Consumer(driver, "a", "t").join()
    assert told(reply) == ("a", 2, 5000, {T: (0, 1, 2, 3)}, ErrorCode.NONE)
    (batch,) = driver.batches
    assert [type(record) for record in batch] == [
        SubscriptionRecord,
        GroupEpochRecord,
        TargetRecord,
        TargetEpochRecord,
        CurrentRecord,
    ]
    assert driver.consumer_state() == "Stable"


def test_a_quiet_heartbeat_writes_nothing(driver: ConsumerDriver) -> None:
    member = Consumer(driver, "a", "t")
    member.join()
    written = len(driver.batches)
    assert driver.send("a", 2).assignment is None
    assert driver.send("a", 2, owned=member.owned, topics=("t",)).assignment is None
    assert len(driver.batches) == written


def test_states_of_a_group(driver: ConsumerDriver) -> None:
    first, second = Consumer(driver, "a", "t"), Consumer(driver, "b", "t")
    first.join()
    second.join()
    assert driver.consumer_state() == "Reconciling"
    settle(first, second)
    assert driver.consumer_state() == "Stable"
    second.leave()
    assert driver.consumer_state() == "Assigning"
    first.beat()
    assert driver.consumer_state() == "Stable"
    first.leave()
    assert driver.consumer_state() == "Empty"


def test_a_silent_member_is_out_and_another_gets_its_partitions(driver: ConsumerDriver) -> None:
    first, second = pair(driver)
    driver.advance(SESSION_MS - 1)
    first.beat()
    driver.advance(1)
    assert refused(driver, "b", second.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    settle(first)
    assert len(first.partitions) == 4


def test_members_that_are_silent_together(driver: ConsumerDriver) -> None:
    pair(driver)
    driver.advance(SESSION_MS)
    assert driver.consumer_state() == "Empty"
    assert driver.shard.consumers.groups["g"].owners == {}
    assert consumer_view(driver.replayed()) == consumer_view(driver.shard)


def hold_on_too_long(driver: ConsumerDriver, meanwhile: Callable[[], None] = lambda: None) -> tuple[Consumer, Consumer]:
    """One member keeps what it should give to the other until its time to revoke is over."""
    first, second = Consumer(driver, "a", "t"), Consumer(driver, "b", "t")
    first.join()
    second.join()
    owned = first.owned
    for _ in range(REVOKE_MS // 10_000):
        driver.send("a", first.epoch, owned=owned)
        second.beat()
        meanwhile()
        driver.advance(10_000)
    return first, second


def test_who_does_not_let_go_in_time_is_out(driver: ConsumerDriver) -> None:
    first, second = hold_on_too_long(driver)
    assert refused(driver, "a", first.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    second.beat()
    assert len(second.partitions) == 4


def test_what_others_do_gives_nobody_more_time_to_let_go(driver: ConsumerDriver) -> None:
    def come_and_go() -> None:
        """The member that does not let go has a new target made with its next heartbeat."""
        third = Consumer(driver, "c", "t")
        third.join()
        third.leave()

    first, _ = hold_on_too_long(driver, come_and_go)
    assert refused(driver, "a", first.epoch) is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_will_be_back_need_not_let_go_in_time(driver: ConsumerDriver) -> None:
    first = Consumer(driver, "a", "t", instance_id="i", rebalance_timeout_ms=10_000)
    first.join()
    second = Consumer(driver, "b", "t")
    second.join()
    driver.send("a", first.epoch, instance_id="i")
    first.leave(-2)
    driver.advance(20_000)
    assert "a" in {member.member_id for member in driver.describe().members}
    settle(second)
    driver.advance(SESSION_MS - 20_000)
    assert "a" not in {member.member_id for member in driver.describe().members}


def test_the_time_to_let_go_begins_again_with_a_crash(driver: ConsumerDriver) -> None:
    first, second = Consumer(driver, "a", "t"), Consumer(driver, "b", "t")
    first.join()
    second.join()
    driver.send("a", first.epoch)
    driver.crash()
    for _ in range(REVOKE_MS // 10_000):
        driver.send("a", first.epoch)
        second.beat()
        driver.advance(10_000)
    assert refused(driver, "a", first.epoch) is ErrorCode.UNKNOWN_MEMBER_ID


def test_expiry_is_tried_again_when_the_log_is_full(driver: ConsumerDriver) -> None:
    pair(driver)
    driver.append_error = ErrorCode.NOT_COORDINATOR
    driver.advance(SESSION_MS)
    assert driver.consumer_state() == "Stable"
    driver.append_error = None
    driver.advance(2000)
    assert driver.consumer_state() == "Empty"


def test_a_crash_keeps_everybody(driver: ConsumerDriver) -> None:
    first, second = pair(driver)
    driver.crash()
    before = len(driver.batches)
    assert first.beat().member_epoch == first.epoch
    assert second.beat().assignment is None
    assert len(driver.batches) == before
    driver.advance(SESSION_MS)
    assert driver.consumer_state() == "Empty"


def test_topics_that_come_grow_and_go(driver: ConsumerDriver) -> None:
    member = Consumer(driver, "a", "t", "later")
    member.join()
    for topics, expected in (
        ({"t": 6}, {T: (0, 1, 2, 3, 4, 5)}),
        ({"t": 6, "later": 1}, {T: (0, 1, 2, 3, 4, 5), topic_id("later"): (0,)}),
        ({"later": 1}, {topic_id("later"): (0,)}),
        ({"later": (2, 1)}, {topic_id("later", 1): (0, 1)}),
    ):
        driver.change_topics(topics)
        settle(member)
        assert member.owned == expected


def test_topics_of_others_do_not_matter(driver: ConsumerDriver) -> None:
    member = Consumer(driver, "a", "t")
    member.join()
    written = len(driver.batches)
    driver.change_topics({"t": 4, "u": 9, "v": 1})
    member.beat()
    assert len(driver.batches) == written


def test_patterns(driver: ConsumerDriver) -> None:
    member = Consumer(driver, "a", pattern="[a-u]")
    assert member.join().assignment == {T: (0, 1, 2, 3), U: (0, 1)}
    driver.change_topics({"t": 4, "s": 1, "x": 9})
    settle(member)
    assert member.owned == {T: (0, 1, 2, 3), topic_id("s"): (0,)}
    other = Consumer(driver, "b", "x", pattern="s")
    other.join()
    settle(member, other)
    group = driver.shard.consumers.groups["g"]
    assert {pattern: found.topics for pattern, found in group.patterns.items()} == {"[a-u]": ("s", "t"), "s": ("s",)}
    assert group.is_subscribed_to("x")
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")
    other.leave()
    assert set(group.patterns) == {"[a-u]"}
    assert PatternRecord("g", "s", None) in driver.batches[-1]


@pytest.mark.parametrize("pattern", ["(", "a{2000}", "(?=a)", "a" * 4097, "\\C" * 3 + "["])
def test_patterns_that_are_none(driver: ConsumerDriver, pattern: str) -> None:
    code = refused(driver, "a", 0, pattern=pattern, owned={}, rebalance_timeout_ms=1)
    assert code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_hostile_pattern_takes_no_time() -> None:
    driver = ConsumerDriver({"a" * 249: 1, "a" * 248 + "b": 1})
    assert Consumer(driver, "m", pattern="(a|aa)+(a*)*c|(a*a*a*a*a*a*a*a*)*b").join().assignment is not None


def test_limits() -> None:
    driver = ConsumerDriver(settings=GroupSettings(consumer_max_size=1))
    Consumer(driver, "a", "t", instance_id="i").join()
    assert refused(driver, "b", 0, topics=("t",), owned={}, rebalance_timeout_ms=1) is ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.send("a", -2, instance_id="i")
    assert Consumer(driver, "c", "t", instance_id="i").join().error is ErrorCode.NONE


def test_static_members(driver: ConsumerDriver) -> None:
    member = Consumer(driver, "a", "t", instance_id="i")
    member.join()
    join = {"topics": ("t",), "owned": {}, "rebalance_timeout_ms": 1, "instance_id": "i"}
    assert refused(driver, "b", 0, **join) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert member.leave(-2).member_epoch == -2
    epoch = driver.shard.consumers.groups["g"].epoch
    successor = Consumer(driver, "b", "t", instance_id="i")
    assert told(successor.join()) == ("b", epoch, 5000, {T: (0, 1, 2, 3)}, ErrorCode.NONE)
    assert refused(driver, "a", 2, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert refused(driver, "a", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(driver, "x", 2, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID
    successor.leave(-2)
    driver.advance(SESSION_MS)
    assert driver.consumer_state() == "Empty"


def test_settings_of_one_group(driver: ConsumerDriver) -> None:
    driver.image.group_configs["g"] = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    assert Consumer(driver, "a", "t").join().heartbeat_interval_ms == 7000
    driver.advance(49_999)
    assert driver.consumer_state() == "Stable"
    driver.advance(1)
    assert driver.consumer_state() == "Empty"


def test_a_failed_write_changes_nothing(driver: ConsumerDriver) -> None:
    member = Consumer(driver, "a", "t")
    member.join()
    before = consumer_view(driver.shard)
    driver.append_error = ErrorCode.NOT_COORDINATOR
    assert refused(driver, "b", 0, topics=("t",), owned={}, rebalance_timeout_ms=1) is ErrorCode.NOT_COORDINATOR
    assert refused(driver, "a", -1) is ErrorCode.NOT_COORDINATOR
    driver.change_topics({"t": 9})
    assert refused(driver, "a", 2) is ErrorCode.NOT_COORDINATOR
    assert consumer_view(driver.shard) == before
    driver.append_error = None
    member.beat()
    assert len(member.partitions) == 9


def test_offsets_and_epochs(driver: ConsumerDriver) -> None:
    first, second = pair(driver)
    since, old = 2, 1
    kept = min(first.partitions)[1]
    gained = min(second.partitions)[1]
    assert first.epoch == 3
    offset = OffsetToCommit("t", kept, 5, topic_id=T)
    assert driver.commit(offset, member_id="a", generation=3) == [ErrorCode.NONE]
    assert driver.commit(offset, member_id="a", generation=since) == [ErrorCode.NONE]
    for member, epoch, partition in (("a", old, kept), ("a", 4, kept), ("b", since, gained), ("a", since, gained)):
        with pytest.raises(BrokerError) as caught:
            driver.commit(OffsetToCommit("t", partition, 9, topic_id=T), member_id=member, generation=epoch)
        assert caught.value.code is ErrorCode.STALE_MEMBER_EPOCH
    for member, epoch, version, code in (
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("x", 3, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 3, 8, ErrorCode.UNSUPPORTED_VERSION),
    ):
        with pytest.raises(BrokerError) as caught:
            driver.commit(offset, member_id=member, generation=epoch, version=version)
        assert caught.value.code is code
    assert driver.fetch("t", kept).offset == 5
    with pytest.raises(BrokerError) as caught:
        driver.shard.fetch_offsets(FetchOffsets("g", None, "a", 2), driver.now)
    assert caught.value.code is ErrorCode.STALE_MEMBER_EPOCH
    with pytest.raises(BrokerError) as caught:
        # Only a request without a member id comes from outside the group; an empty id is one that no member has.
        driver.shard.fetch_offsets(FetchOffsets("g", None, "", -1), driver.now)
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.shard.fetch_offsets(FetchOffsets("g", None, None, -1), driver.now).reply


def test_a_producer_is_told_of_a_stale_epoch_in_the_words_it_knows(driver: ConsumerDriver) -> None:
    first, _ = pair(driver)
    offset = OffsetToCommit("t", min(first.partitions)[1], 5, topic_id=T)
    for epoch in (1, 4):
        request = TransactionalCommit(7, 0, Commit("g", "a", None, epoch, [offset]))
        with pytest.raises(BrokerError) as caught:
            driver.shard.decide_transactional_commit(request, driver.now)
        assert caught.value.code is ErrorCode.ILLEGAL_GENERATION
    request = TransactionalCommit(7, 0, Commit("g", "a", None, 3, [offset]))
    assert driver.shard.decide_transactional_commit(request, driver.now).reply == [ErrorCode.NONE]


def test_offsets_expire_unless_they_are_read() -> None:
    settings = GroupSettings(offsets_retention_ms=100_000, offsets_retention_check_interval_ms=10_000)
    driver = ConsumerDriver({"t": 1, "u": 1}, settings)
    member = Consumer(driver, "a", "t")
    member.join()
    for topic in ("t", "u"):
        driver.commit(OffsetToCommit(topic, 0, 5, topic_id=topic_id(topic)), member_id="a", generation=2)
    deleted = driver.perform(driver.shard.decide_delete_offsets(DeleteOffsets("g", [("t", [0])]), driver.now))
    assert deleted == [("t", [(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)])]
    for _ in range(12):
        driver.advance(10_000)
        member.beat()
    assert (driver.fetch("t", 0).offset, driver.fetch("u", 0).offset) == (5, -1)
    member.leave()
    driver.advance(10_000)
    assert driver.fetch("t", 0).offset == -1
    assert driver.consumer_state() == "missing"
    assert consumer_view(driver.replayed(compacted=True)) == consumer_view(driver.shard)


def test_deleting_groups(driver: ConsumerDriver) -> None:
    member = Consumer(driver, "a", "t")
    member.join()
    assert driver.perform(driver.shard.decide_delete_groups(["g"], driver.now)) == [("g", ErrorCode.NON_EMPTY_GROUP)]
    member.leave()
    assert driver.perform(driver.shard.decide_delete_groups(["g"], driver.now)) == [("g", ErrorCode.NONE)]
    assert driver.consumer_state() == "missing"
    # The log may have forgotten everything: no key is left without its tombstone.
    assert set(dict(driver.log).values()) == {None}


def test_more_dead_members_than_a_batch_holds_are_taken_out(driver: ConsumerDriver) -> None:
    for number in range(200):
        # As many bytes as thousands of members with names of the usual length.
        Consumer(driver, f"{number:04}".ljust(4000, "x"), "t", group="gh"[number % 2]).join()
    driver.advance(SESSION_MS)
    assert not driver.shard.consumers.groups["g"].members
    assert not driver.shard.consumers.groups["h"].members
    assert all(len({record.group_id for record in batch}) == 1 for batch in driver.batches)


def test_a_group_whose_records_are_refused_does_not_keep_others_alive(driver: ConsumerDriver) -> None:
    """Everything of group "g" is refused from now on, whichever other groups are due."""
    for group in ("f", "g", "h"):
        Consumer(driver, "a", "t", group=group).join()
    driver.refused_group = "g"
    driver.advance(SESSION_MS + 10_000)
    assert [len(group.members) for group in driver.shard.consumers.groups.values()] == [0, 1, 0]
    driver.refused_group = None
    driver.advance(10_000)
    assert not driver.shard.consumers.groups["g"].members


def test_rebalances_are_counted_from_when_the_group_came_here(driver: ConsumerDriver) -> None:
    first, second = pair(driver)
    group = driver.shard.consumers.groups["g"]
    assert (group.epoch, group.rebalances) == (3, 2)
    settle(first, second)
    assert group.rebalances == 2
    driver.crash()
    driver.shard.consumers.image = driver.image
    second.leave()
    assert driver.shard.consumers.groups["g"].rebalances == 1


@pytest.mark.plain
@pytest.mark.parametrize("limit", [1000, 2])
def test_patterns_follow_topics_that_come_and_go(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what has changed is matched again, with the same result as if everything were."""
    monkeypatch.setattr("tidelog.groups.core.consumer.group.CHANGED_TOPICS_MAX", limit)
    chance = random.Random(limit)
    names = [first + second for first in "abc" for second in "xyz"]
    driver = ConsumerDriver({"ax": 1})
    members = [Consumer(driver, pattern, pattern=pattern) for pattern in ("a.", ".x", "b[yz]|cx", ".*")]
    for member in members:
        member.join()
    for turn in range(60):
        driver.change_topics({name: (1, turn) for name in names if chance.random() < 0.5})
        if chance.random() < 0.2:
            driver.append_error = ErrorCode.NOT_COORDINATOR
            with suppress(BrokerError):
                members[0].beat()
            driver.append_error = None
        if chance.random() < 0.1:
            driver.crash()
        if chance.random() < 0.5:
            members[0].beat()
            found = {pattern: set(told.topics) for pattern, told in driver.shard.consumers.groups["g"].patterns.items()}
            assert found == {
                member.member_id: {name for name in driver.image.topics if re.fullmatch(member.member_id, name)}
                for member in members
            }


@pytest.mark.plain
def test_only_topics_that_changed_are_matched(driver: ConsumerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    member = Consumer(driver, "a", pattern=".*")
    member.join()
    matched: list[str] = []

    def spy(pattern: str, topics: Iterable[str]) -> tuple[str, ...]:
        given = list(topics)
        matched.extend(given)
        return matching_topics(pattern, given)

    monkeypatch.setattr("tidelog.groups.core.consumer.assigning.matching_topics", spy)
    driver.change_topics({"t": 4, "u": 1})
    member.beat()
    assert matched == ["u"]
    assert len(member.partitions) == 5


def test_a_group_has_so_many_patterns(driver: ConsumerDriver) -> None:
    for number in range(PATTERNS_PER_GROUP_MAX):
        Consumer(driver, f"m-{number}", pattern=f"t{number}?").join()
    with pytest.raises(BrokerError) as caught:
        Consumer(driver, "x", pattern="other").join()
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    Consumer(driver, "same", pattern="t0?").join()
    Consumer(driver, "m-1", pattern="t1?").leave()
    Consumer(driver, "x", pattern="other").join()


def test_what_a_member_has_still_to_give_up_is_described_as_its_own(driver: ConsumerDriver) -> None:
    first = Consumer(driver, "a", "t")
    first.join()
    Consumer(driver, "b", "t").join()
    driver.send("a", first.epoch, owned=first.owned)
    described = {member.member_id: member for member in driver.describe().members}
    assert described["a"].assignment == {T: (0, 1, 2, 3)}
    assert len(described["a"].target[T]) == 2
    assert described["b"].assignment == {}


@pytest.mark.parametrize("asked", [("range", "uniform"), ("uniform", "range")])
def test_of_two_assignors_that_as_many_ask_for_it_is_kafkas_first(
    driver: ConsumerDriver, asked: tuple[str, str]
) -> None:
    for name, assignor in zip("ab", asked, strict=True):
        Consumer(driver, name, "t", assignor=assignor).join()
    assert driver.describe().assignor == "uniform"


def test_static_members_come_first_in_a_range(driver: ConsumerDriver) -> None:
    dynamic = Consumer(driver, "a", "t", assignor="range")
    static = Consumer(driver, "b", "t", assignor="range", instance_id="z")
    dynamic.join()
    static.join()
    settle(dynamic, static)
    assert (static.owned, dynamic.owned) == ({T: (0, 1)}, {T: (2, 3)})
