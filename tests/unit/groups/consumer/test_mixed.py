"""Groups with members of both protocols: in and out, up and down."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.groups.consumer.driver import Consumer, ConsumerDriver, consumer_view, settle, topic_id
from tests.unit.groups.driver import REBALANCE_MS, SESSION_MS, subscription

from tidelog.groups.core.consumer.embedded import decode_assignment, encode_assignment
from tidelog.groups.core.messages import Joined, Synced
from tidelog.groups.core.settings import GroupSettings
from tidelog.model.errors import BrokerError, ErrorCode

T = topic_id("t")


class Classic:
    """A classic member of a group that assigns for it, or that it leads."""

    def __init__(self, driver: ConsumerDriver, *topics: str, group: str = "g", **options: Any) -> None:
        self.driver = driver
        self.group = group
        self.options = {"protocols": (("range", subscription(*topics)),), **options}
        self.member_id = ""
        self.generation = -1
        self.owned: dict[bytes, tuple[int, ...]] = {}

    def join(self) -> Joined:
        token, reply = self.driver.send_join(self.member_id, group=self.group, **self.options)
        if reply is not None and reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            token, reply = self.driver.send_join(self.member_id, group=self.group, **self.options)
        if reply is None:
            self.driver.advance(2)
            reply = self.driver.replies[token]
        if reply.error is ErrorCode.NONE:
            self.member_id, self.generation = reply.member_id, reply.generation
        assert isinstance(reply, Joined)
        return reply

    def sync(self, owned: dict[bytes, tuple[int, ...]] | None = None) -> ErrorCode:
        given = None
        if owned is not None:
            epochs = {topic: dict.fromkeys(partitions, 1) for topic, partitions in owned.items()}
            given = {self.member_id: encode_assignment(epochs, 0, self.driver.image)}
        token, reply = self.driver.send_sync(
            self.member_id, self.generation, given, group=self.group, instance=self.options.get("instance")
        )
        reply = reply or self.driver.replies.get(token)
        assert isinstance(reply, Synced)
        if reply.error is ErrorCode.NONE:
            self.owned = dict(decode_assignment(reply.assignment, self.driver.image)[0])
        return reply.error

    def heartbeat(self) -> ErrorCode:
        return self.driver.heartbeat(
            self.member_id, self.generation, group=self.group, instance=self.options.get("instance")
        )


def stable_classic(driver: ConsumerDriver, **options: Any) -> Classic:
    member = Classic(driver, "t", **options)
    assert member.join().error is ErrorCode.NONE
    assert member.sync({T: (0, 1, 2, 3)}) is ErrorCode.NONE
    return member


@pytest.fixture
def driver() -> ConsumerDriver:
    return ConsumerDriver()


def group_type(driver: ConsumerDriver) -> str:
    listed = driver.perform(driver.shard.list_groups(((), ()), driver.now))
    return {group.group_id: group.group_type for group in listed}.get("g", "none")


def same_after_crash(driver: ConsumerDriver) -> None:
    live = consumer_view(driver.shard)
    for compacted in (False, True):
        replayed = consumer_view(driver.replayed(compacted=compacted))
        assert replayed["consumers"] == live["consumers"]
        # Rounds that are under way are not in the log.
        assert all(replayed["groups"][group_id] == view for group_id, view in live["groups"].items())


def test_upgrade_keeps_what_everybody_has(driver: ConsumerDriver) -> None:
    classic = stable_classic(driver)
    consumer = Consumer(driver, "c", "t")
    reply = consumer.join()
    assert (reply.member_epoch, reply.assignment) == (2, {})
    assert group_type(driver) == "consumer"
    assert driver.describe().members[0].assignment == {T: (0, 1, 2, 3)}
    same_after_crash(driver)
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    joined = classic.join()
    assert (joined.error, joined.member_id, joined.generation) == (ErrorCode.NONE, classic.member_id, 2)
    assert classic.sync() is ErrorCode.NONE
    consumer.beat()
    assert sorted([*classic.owned[T], *consumer.owned[T]]) == [0, 1, 2, 3]
    assert len(consumer.owned[T]) == 2
    assert classic.heartbeat() is ErrorCode.NONE
    same_after_crash(driver)


def test_upgrade_releases_who_waits_in_a_round(driver: ConsumerDriver) -> None:
    classic = stable_classic(driver)
    member_id, token = driver.join_known(protocols=(("range", subscription("t")),))
    assert driver.state() == "PreparingRebalance"
    Consumer(driver, "c", "t").join()
    assert driver.replies[token].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert {m.member_id for m in driver.describe().members} == {classic.member_id, member_id, "c"}
    driver.advance(REBALANCE_MS)


def test_who_waits_in_a_round_is_answered_if_there_is_no_room_for_the_consumer() -> None:
    driver = ConsumerDriver(settings=GroupSettings(initial_rebalance_delay_ms=1, consumer_max_size=1))
    member_id, token = driver.join_known(protocols=(("range", subscription("t")),))
    with pytest.raises(BrokerError) as caught:
        Consumer(driver, "c", "t").join()
    assert caught.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.advance(10)
    assert (driver.replies[token].error, driver.replies[token].member_id) == (ErrorCode.NONE, member_id)


def test_a_failed_upgrade_leaves_a_classic_group(driver: ConsumerDriver) -> None:
    classic = stable_classic(driver)
    driver.append_error = ErrorCode.NOT_COORDINATOR
    assert driver.send("c", 0, topics=("t",), owned={}, rebalance_timeout_ms=1).error is ErrorCode.NOT_COORDINATOR
    driver.append_error = None
    assert group_type(driver) == "classic"
    assert classic.heartbeat() is ErrorCode.NONE


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_upgrade_only_if_it_is_allowed(policy: str) -> None:
    driver = ConsumerDriver(settings=GroupSettings(initial_rebalance_delay_ms=1, consumer_migration_policy=policy))
    stable_classic(driver)
    with pytest.raises(BrokerError) as caught:
        Consumer(driver, "c", "t").join()
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
def test_upgrade_only_of_consumers(driver: ConsumerDriver, protocol_type: str) -> None:
    driver.form_group(protocol_type=protocol_type, protocols=(("range", b"not a subscription"),))
    with pytest.raises(BrokerError) as caught:
        Consumer(driver, "c", "t").join()
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def mixed(driver: ConsumerDriver) -> tuple[Classic, Consumer]:
    consumer = Consumer(driver, "c", "t")
    consumer.join()
    classic = Classic(driver, "t")
    classic.join()
    classic.sync()
    settle(consumer)
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert classic.join().error is ErrorCode.NONE
    assert classic.sync() is ErrorCode.NONE
    assert (len(classic.owned[T]), len(consumer.owned[T])) == (2, 2)
    return classic, consumer


def test_downgrade_when_the_last_consumer_leaves(driver: ConsumerDriver) -> None:
    classic, consumer = mixed(driver)
    consumer.leave()
    driver.advance(2)
    assert group_type(driver) == "classic"
    same_after_crash(driver)
    assert driver.state() == "PreparingRebalance"
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert classic.join().leader == classic.member_id
    assert classic.sync({T: (0, 1, 2, 3)}) is ErrorCode.NONE
    assert classic.heartbeat() is ErrorCode.NONE
    same_after_crash(driver)


def test_downgrade_when_the_last_consumer_is_silent(driver: ConsumerDriver) -> None:
    classic, _ = mixed(driver)
    for _ in range(10):
        driver.advance(SESSION_MS - 1)
        if classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
            break
    assert group_type(driver) == "classic"


def test_downgrade_of_a_member_whose_favourite_is_no_consumers(driver: ConsumerDriver) -> None:
    """The protocol that the group agreed on is a consumer's; what else a member offers need not be."""
    known = ("range", subscription("t"))
    first, token = driver.join_known(protocols=(("custom", b""), known))
    second, _ = driver.join_known(protocols=(known,))
    driver.advance(10)
    generation = driver.replies[token].generation
    driver.send_sync(second, generation)
    driver.send_sync(first, generation, {first: encode_assignment({T: {0: 1}}, 0, driver.image)})
    consumer = Consumer(driver, "c", "t")
    consumer.join()
    assert group_type(driver) == "consumer"
    consumer.leave()
    driver.advance(2)
    assert group_type(driver) == "classic"
    same_after_crash(driver)


def test_deadlines_of_a_consumer_group_end_with_it(driver: ConsumerDriver) -> None:
    classic, consumer = mixed(driver)
    Consumer(driver, "d", "t").join()
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    driver.leave("d")
    consumer.leave()
    driver.advance(2)
    assert classic.join().error is ErrorCode.NONE
    assert classic.sync({T: (0, 1, 2, 3)}) is ErrorCode.NONE
    for _ in range(REBALANCE_MS // 5000 - 1):
        driver.advance(5000)
        assert classic.heartbeat() is ErrorCode.NONE
    again = Consumer(driver, "e", "t")
    again.join()
    driver.advance(5000)
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_downgrade_is_made_up_for_after_a_crash(driver: ConsumerDriver) -> None:
    classic, consumer = mixed(driver)
    consumer.leave()
    driver.crash()
    assert group_type(driver) == "consumer"
    driver.advance(2)
    assert group_type(driver) == "classic"
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_failed_downgrade_is_tried_again(driver: ConsumerDriver) -> None:
    classic, consumer = mixed(driver)
    consumer.leave()
    driver.append_error = ErrorCode.NOT_COORDINATOR
    driver.advance(10)
    driver.append_error = None
    assert group_type(driver) == "consumer"
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(2000)
    assert group_type(driver) == "classic"


def test_no_downgrade_if_it_is_not_allowed() -> None:
    settings = GroupSettings(
        initial_rebalance_delay_ms=1, consumer_migration_policy="upgrade", consumer_assignment_interval_ms=0
    )
    driver = ConsumerDriver(settings=settings)
    classic, consumer = mixed(driver)
    consumer.leave()
    driver.advance(2)
    assert group_type(driver) == "consumer"
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    classic.join()
    classic.sync()
    assert classic.owned == {T: (0, 1, 2, 3)}


def test_a_classic_member_that_does_not_rejoin_in_time_is_out(driver: ConsumerDriver) -> None:
    classic, consumer = mixed(driver)
    third = Consumer(driver, "d", "t")
    third.join()
    for _ in range(REBALANCE_MS // 5000 + 1):
        classic.heartbeat()
        settle(consumer, third)
        driver.advance(5000)
    assert classic.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    settle(consumer, third)
    assert consumer.partitions | third.partitions == {(T, p) for p in range(4)}


def test_a_classic_member_that_does_not_sync_in_time_is_out(driver: ConsumerDriver) -> None:
    consumer = Consumer(driver, "c", "t")
    consumer.join()
    classic = Classic(driver, "t")
    classic.join()
    for _ in range(REBALANCE_MS // 5000 + 1):
        consumer.beat()
        driver.heartbeat(classic.member_id, classic.generation)
        driver.advance(5000)
    assert [m.member_id for m in driver.describe().members] == ["c"]


def test_static_member_changes_its_protocol(driver: ConsumerDriver) -> None:
    classic = stable_classic(driver, instance="i")
    consumer = Consumer(driver, "c", "t", instance_id="i")
    assert consumer.join().assignment == {T: (0, 1, 2, 3)}
    assert classic.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    again = Classic(driver, "t", instance="i")
    assert again.join().error is ErrorCode.NONE
    driver.advance(2)
    assert group_type(driver) == "classic"
    assert again.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    same_after_crash(driver)


def test_a_static_member_that_is_taken_out_by_its_instance_is_told_of_as_it_was_asked_for(
    driver: ConsumerDriver,
) -> None:
    Consumer(driver, "c", "t", instance_id="i").join()
    left = driver.leave(("", "i"), ("", "j"))
    assert left.members == [("", "i", ErrorCode.NONE), ("", "j", ErrorCode.UNKNOWN_MEMBER_ID)]
    assert driver.consumer_state() == "Empty"


def test_an_empty_consumer_group_gives_way(driver: ConsumerDriver) -> None:
    consumer = Consumer(driver, "c", "t")
    consumer.join()
    consumer.leave()
    classic = stable_classic(driver)
    assert group_type(driver) == "classic"
    assert classic.heartbeat() is ErrorCode.NONE
    same_after_crash(driver)


def test_an_empty_consumer_group_stays_if_the_log_is_full(driver: ConsumerDriver) -> None:
    consumer = Consumer(driver, "c", "t")
    consumer.join()
    consumer.leave()
    driver.append_error = ErrorCode.NOT_COORDINATOR
    _, reply = driver.send_join(protocols=(("range", subscription("t")),))
    assert reply is not None
    assert reply.error is ErrorCode.NOT_COORDINATOR
    driver.append_error = None
    assert group_type(driver) == "consumer"
    same_after_crash(driver)


def test_a_classic_join_that_is_refused_names_no_member(driver: ConsumerDriver) -> None:
    Consumer(driver, "c", "t").join()
    _, refused = driver.send_join("somebody", protocols=())
    assert refused == Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
