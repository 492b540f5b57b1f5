"""A burst of joins makes few assignments, and no member waits longer than it has to."""

from __future__ import annotations

import pytest
from tests.unit.groups.consumer.driver import Consumer, ConsumerDriver, settle, topic_id
from tests.unit.groups.driver import subscription

from tidelog.groups.core.consumer.heartbeats import HEARTBEAT_INTERVAL_MS_MIN
from tidelog.groups.core.consumer.records import TargetEpochRecord
from tidelog.groups.core.settings import GroupSettings
from tidelog.model.errors import ErrorCode

INTERVAL_MS = 1000
SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=1,
    consumer_assignment_interval_ms=INTERVAL_MS,
    consumer_assignment_interval_per_member_us=INTERVAL_MS * 1000,
)


@pytest.fixture
def driver() -> ConsumerDriver:
    return ConsumerDriver({"t": 4, "u": 2}, SETTINGS)


def assignments(driver: ConsumerDriver) -> int:
    return sum(type(record) is TargetEpochRecord for batch in driver.batches for record in batch)


def test_the_first_gets_everything_at_once_and_a_burst_after_it_one_assignment(driver: ConsumerDriver) -> None:
    first, *others = (Consumer(driver, f"m{number}", "t") for number in range(4))
    first.join()
    assert len(first.partitions) == 4
    for member in others:
        reply = member.join()
        assert (reply.member_epoch, reply.assignment) == (first.epoch, {})
    assert driver.consumer_state() == "Assigning"
    driver.advance(INTERVAL_MS - 1)
    first.beat()
    assert assignments(driver) == 1
    driver.advance(1)
    assert assignments(driver) == 2
    settle(first, *others)
    assert [len(member.partitions) for member in (first, *others)] == [1, 1, 1, 1]
    assert driver.consumer_state() == "Stable"
    assert assignments(driver) == 2


def test_who_waits_is_asked_to_call_when_the_wait_is_over(driver: ConsumerDriver) -> None:
    first, second = Consumer(driver, "a", "t"), Consumer(driver, "b", "t")
    assert first.join().heartbeat_interval_ms == SETTINGS.consumer_heartbeat_interval_ms
    driver.advance(100)
    assert second.join().heartbeat_interval_ms == INTERVAL_MS - 100
    driver.advance(INTERVAL_MS - 101)
    assert first.beat().heartbeat_interval_ms == HEARTBEAT_INTERVAL_MS_MIN
    driver.advance(1)
    assert first.beat().heartbeat_interval_ms == SETTINGS.consumer_heartbeat_interval_ms


def test_whoever_is_left_alone_does_not_wait(driver: ConsumerDriver) -> None:
    first, second = Consumer(driver, "a", "t"), Consumer(driver, "b", "t")
    first.join()
    second.join()
    first.leave()
    second.beat()
    assert len(second.partitions) == 4


def test_a_small_group_waits_less_and_a_group_may_have_its_own_interval() -> None:
    settings = GroupSettings()
    assert settings.assignment_interval_ms(None, 3) == 0
    assert settings.assignment_interval_ms(None, 500) == 125
    assert settings.assignment_interval_ms(None, 5000) == 1000
    assert settings.assignment_interval_ms({"consumer.assignment.interval.ms": "100"}, 5000) == 100


def test_who_unsubscribes_gives_up_before_there_is_a_new_assignment(driver: ConsumerDriver) -> None:
    first, second = Consumer(driver, "a", "t", "u"), Consumer(driver, "b", "t", "u")
    first.join()
    second.join()
    driver.advance(INTERVAL_MS)
    settle(first, second)
    epoch = second.epoch
    assert second.owned.keys() == {topic_id("t"), topic_id("u")}
    assert second.beat(topics=("t",)).assignment is not None
    assert second.owned.keys() == {topic_id("t")}
    assert second.beat().member_epoch == epoch
    assert topic_id("u") not in driver.shard.consumers.groups["g"].owners
    driver.advance(INTERVAL_MS)
    settle(first, second)
    assert first.owned[topic_id("u")] == (0, 1)


def test_an_assignment_that_was_put_off_outlives_a_crash_and_a_full_disk(driver: ConsumerDriver) -> None:
    first, second = Consumer(driver, "a", "t"), Consumer(driver, "b", "t")
    first.join()
    second.join()
    driver.crash()
    driver.append_error = ErrorCode.NOT_COORDINATOR
    driver.advance(INTERVAL_MS)
    assert assignments(driver) == 1
    driver.append_error = None
    driver.advance(INTERVAL_MS)
    assert assignments(driver) == 2
    settle(first, second)
    assert len(first.partitions) == len(second.partitions) == 2


def test_a_clock_that_is_set_back_does_not_put_off(driver: ConsumerDriver) -> None:
    first, second = Consumer(driver, "a", "t"), Consumer(driver, "b", "t")
    driver.advance(10_000)
    first.join()
    driver.ticks_ms -= 5000
    second.join()
    settle(first, second)
    assert len(second.partitions) == 2


def test_a_classic_member_is_asked_to_rejoin_when_there_is_an_assignment(driver: ConsumerDriver) -> None:
    consumer = Consumer(driver, "a", "t")
    consumer.join()
    _, asked = driver.send_join(protocols=(("range", subscription("t")),))
    assert asked is not None
    _, joined = driver.send_join(asked.member_id, protocols=(("range", subscription("t")),))
    assert joined is not None
    assert joined.generation == consumer.epoch
    _, synced = driver.send_sync(asked.member_id, joined.generation)
    assert synced is not None
    assert synced.error is ErrorCode.NONE
    assert driver.heartbeat(asked.member_id, joined.generation) is ErrorCode.NONE
    driver.advance(INTERVAL_MS)
    assert driver.heartbeat(asked.member_id, joined.generation) is ErrorCode.REBALANCE_IN_PROGRESS
