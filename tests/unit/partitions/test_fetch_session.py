"""Incremental fetch sessions: what is remembered, what is sent again, and which requests get no session."""

import pytest

from tidelog.model import limits
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.partitions.fetch_session import EVICTION_MS, FetchSessionCache, FetchTarget

NOW_MS = 1_000_000


def target(partition: int, offset: int = 0, topic: str = "t") -> FetchTarget:
    return FetchTarget(topic, partition, offset, 1 << 20, -1, -1)


def told(target: FetchTarget, **changes: int | bool) -> bool:
    says = {"has_records": False, "error_code": 0, "high_watermark": 5, "log_start_offset": 0} | changes
    return target.must_include(**says)  # type: ignore[arg-type]


def test_a_session_is_continued_epoch_by_epoch() -> None:
    cache = FetchSessionCache(10)
    session = cache.create([target(0), target(1)], False, NOW_MS)
    assert session is not None
    for epoch in (1, 2, 3):
        assert cache.resume(session.session_id, epoch, False, NOW_MS) is session
    with pytest.raises(BrokerError) as error:
        cache.resume(session.session_id, 3, False, NOW_MS)
    assert error.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_wraps_to_one() -> None:
    cache = FetchSessionCache(10)
    session = cache.create([target(0)], False, NOW_MS)
    assert session is not None
    session.epoch = 0x7FFFFFFF
    cache.resume(session.session_id, 0x7FFFFFFF, False, NOW_MS)
    assert session.epoch == 1


def test_unknown_and_closed_sessions_are_refused() -> None:
    cache = FetchSessionCache(10)
    session = cache.create([target(0)], False, NOW_MS)
    assert session is not None
    cache.close(session.session_id)
    with pytest.raises(BrokerError) as error:
        cache.resume(session.session_id, 1, False, NOW_MS)
    assert error.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_does_not_mix_names_and_ids() -> None:
    cache = FetchSessionCache(10)
    session = cache.create([target(0)], False, NOW_MS)
    assert session is not None
    with pytest.raises(BrokerError) as error:
        cache.resume(session.session_id, 1, True, NOW_MS)
    assert error.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_updates_change_add_and_forget_partitions() -> None:
    session = FetchSessionCache(10).create([target(0), target(1)], False, NOW_MS)
    assert session is not None
    first = session.targets["t", 0]
    session.update([target(0, offset=7), target(2)], [("t", 1), ("never", 9)])
    assert list(session.targets) == [("t", 0), ("t", 2)]
    assert session.targets["t", 0] is first
    assert first.fetch_offset == 7


def test_only_news_is_told() -> None:
    one = target(0)
    assert told(one)
    assert not told(one)
    assert told(one, high_watermark=6)
    assert told(one, high_watermark=6, log_start_offset=2)
    assert not told(one, high_watermark=6, log_start_offset=2)
    assert told(one, high_watermark=6, log_start_offset=2, has_records=True)


def test_errors_are_told_each_time_and_so_is_their_end() -> None:
    one = target(0)
    assert told(one)
    assert told(one, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert told(one, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert told(one)


def test_a_full_cache_evicts_only_what_is_long_unused() -> None:
    cache = FetchSessionCache(2)
    first = cache.create([target(0)], False, NOW_MS)
    second = cache.create([target(0)], False, NOW_MS)
    assert first is not None
    assert second is not None
    assert cache.create([target(0)], False, NOW_MS + EVICTION_MS - 1) is None
    cache.resume(first.session_id, 1, False, NOW_MS + EVICTION_MS)
    assert cache.create([target(0)], False, NOW_MS + EVICTION_MS) is not None
    assert len(cache) == 2
    assert cache.resume(first.session_id, 2, False, NOW_MS + EVICTION_MS) is first


def test_a_cache_without_slots_gives_no_sessions() -> None:
    assert FetchSessionCache(0).create([target(0)], False, NOW_MS) is None


@pytest.mark.plain
def test_sessions_remember_only_so_many_partitions_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FETCH_SESSION_PARTITIONS_MAX", 10)
    cache = FetchSessionCache(10)
    assert cache.create([target(index) for index in range(11)], False, NOW_MS) is None
    old = cache.create([target(index) for index in range(4)], False, NOW_MS)
    session = cache.create([target(index) for index in range(6)], False, NOW_MS + 1)
    assert old is not None
    assert session is not None
    assert cache.create([target(0)], False, NOW_MS) is None, "both are in use"
    cache.update(session, [target(6)], [("t", 0)])
    assert cache.partition_count == 10
    with pytest.raises(BrokerError) as error:
        cache.update(session, [target(7)], [])
    assert error.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(cache), cache.partition_count) == (1, 4), "who outgrows the limit begins anew"
    large = cache.create([target(index) for index in range(7)], False, NOW_MS + EVICTION_MS)
    assert large is not None, "what is long unused makes room"
    assert (len(cache), cache.partition_count) == (1, 7)
    cache.close(large.session_id)
    assert cache.partition_count == 0


def test_a_partition_that_gave_records_is_asked_last() -> None:
    session = FetchSessionCache(10).create([target(0), target(1), target(2)], False, NOW_MS)
    assert session is not None
    session.move_to_end(session.targets["t", 0])
    assert [partition for _, partition in session.targets] == [1, 2, 0]
