"""The throttle of replicas that are not in sync."""

from __future__ import annotations

from tidelog.partitions.core.throttle import ReplicationThrottle, is_throttled


def test_without_a_limit_nothing_is_exceeded() -> None:
    throttle = ReplicationThrottle()
    throttle.spend(1 << 60, 0)
    assert not throttle.is_exceeded(0)


def test_what_was_spent_comes_back_with_time() -> None:
    throttle = ReplicationThrottle()
    throttle.limit(1000, 0)
    throttle.spend(1500, 0)
    assert throttle.is_exceeded(0)
    assert throttle.is_exceeded(500)
    assert not throttle.is_exceeded(501)


def test_a_long_pause_earns_no_more_than_a_second() -> None:
    throttle = ReplicationThrottle()
    throttle.limit(1000, 0)
    throttle.spend(1000, 3_600_000)
    assert throttle.is_exceeded(3_600_000)


def test_looking_often_does_not_lose_what_is_earned_slowly() -> None:
    throttle = ReplicationThrottle()
    throttle.limit(100, 0)
    throttle.spend(101, 0)
    for now_ms in range(20):
        assert throttle.is_exceeded(now_ms)
    assert not throttle.is_exceeded(20)


def test_a_new_limit_starts_afresh() -> None:
    throttle = ReplicationThrottle()
    throttle.limit(10, 0)
    throttle.spend(1_000_000, 0)
    throttle.limit(20, 0)
    assert not throttle.is_exceeded(0)


def test_which_replicas_are_named() -> None:
    assert is_throttled(("*",), 3, 1)
    assert is_throttled(("3:1", "4:2"), 3, 1)
    assert not is_throttled(("3:2", "4:1"), 3, 1)
    assert not is_throttled((), 3, 1)
