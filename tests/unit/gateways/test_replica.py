"""A replica that is behind is waited for, then the leader is asked; only the leader says that something is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tidelog.gateways import replica as module
from tidelog.gateways.access import EARLIEST, READ_COMMITTED, Fetched, FoundOffset, LeaderElsewhere, Read
from tidelog.gateways.replica import Replica
from tidelog.model.errors import BrokerError, ErrorCode


class Log:
    """One replica as fetches show it; `on_fetch` changes it before a fetch is answered."""

    node_id = 1

    def __init__(self) -> None:
        self.leader: int | None = 1
        self.start = 0
        self.end = self.high_watermark = self.stable = 100
        self.epochs = [(3, 0)]
        self.on_fetch: Callable[[int], None] = lambda _: None
        self.fetches = 0
        self.knows_high_watermark = True

    def leader_elsewhere(self, topic: str, index: int) -> LeaderElsewhere:
        return LeaderElsewhere(topic, index, self.leader)

    def _end_of(self, epoch: int) -> int:
        later = [start for each, start in self.epochs if each > epoch]
        return min(later, default=self.end)

    async def fetch(self, read: Read, *, at: int | None = None) -> Fetched:
        self.fetches += 1
        self.on_fetch(self.fetches)
        diverging = None
        if read.last_epoch >= 0:
            if read.last_epoch > self.epochs[-1][0]:
                raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if (end := self._end_of(read.last_epoch)) < read.offset:
                diverging = read.last_epoch, end
        if diverging is None and not self.start <= read.offset <= self.end:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return Fetched(self.high_watermark, self.stable, self.start, (), None, diverging)

    async def list_offset(
        self, topic: str, index: int, timestamp: int, *, isolation: int = 0, at: int | None = None
    ) -> FoundOffset:
        if self.leader not in (self.node_id, at):
            raise self.leader_elsewhere(topic, index)
        if timestamp == EARLIEST:
            return FoundOffset(self.start, -1, 3)
        if not self.knows_high_watermark:
            raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return FoundOffset(self.high_watermark, -1, 3)

    def replica(self, at: int | None = None) -> Replica:
        return Replica(cast(Any, self), "t", 0, at)


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEADER_WAIT_MS", 50)


@pytest.mark.parametrize("leader", [1, 2, None])
async def test_what_is_there_is_there_on_every_replica(leader: int | None) -> None:
    log = Log()
    log.leader = leader
    assert await log.replica().reaches(100, 3, 0, 0) is None
    assert await log.replica().reaches(100, -1, 100, 0) is None
    assert log.fetches == 2


async def test_a_follower_that_is_behind_is_waited_for() -> None:
    log = Log()
    log.leader = 2

    def grow(count: int) -> None:
        log.end = log.high_watermark = log.stable = 90 + 3 * count

    log.on_fetch = grow
    assert await log.replica().reaches(100, 3, 0, 5_000) is None
    assert log.fetches == 4


async def test_the_leader_is_asked_where_a_follower_stays_behind() -> None:
    log = Log()
    log.leader = 2
    for offset, epoch in ((101, 3), (101, -1), (10, 4)):
        with pytest.raises(LeaderElsewhere) as elsewhere:
            await log.replica().reaches(offset, epoch, 0, 0)
        assert elsewhere.value.leader == 2


async def test_a_follower_with_another_history_is_not_read() -> None:
    """It has not been cut yet, or follows a leader that has lost records: the leader knows."""
    log = Log()
    log.leader = 2
    log.epochs = [(3, 0), (4, 40)]
    with pytest.raises(LeaderElsewhere):
        await log.replica().reaches(43, 3, 0, 20)


async def test_the_leader_says_from_where_it_is_lost() -> None:
    log = Log()
    log.epochs = [(3, 0), (4, 40)]
    assert await log.replica().reaches(43, 3, 0, 0) == 40
    assert await log.replica().reaches(40, 3, 0, 0) is None
    assert await log.replica().reaches(43, 4, 0, 0) is None
    log.leader = 2
    assert await log.replica(at=2).reaches(43, 3, 0, 0) == 40


async def test_a_new_leader_is_given_time_to_hear_what_is_committed() -> None:
    log = Log()
    log.high_watermark = log.stable = 90

    def commit(count: int) -> None:
        if count == 3:
            log.high_watermark = log.stable = 100

    log.on_fetch = commit
    assert await log.replica().reaches(100, 3, 0, 0) is None
    assert log.fetches == 3
    log.on_fetch = lambda _: None
    log.high_watermark = 90
    with pytest.raises(BrokerError) as refused:
        await log.replica().reaches(100, 3, 0, 0)
    assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert refused.value.code.is_retriable


async def test_stable_records_are_waited_for_by_their_readers_alone() -> None:
    log = Log()
    log.leader = 2
    log.stable = 40
    assert await log.replica().reaches(100, 3, 0, 0) is None
    seen_isolations = []
    fetch = log.fetch

    async def note(read: Read, *, at: int | None = None) -> Fetched:
        seen_isolations.append(read.isolation)
        return await fetch(read, at=at)

    log.fetch = note  # type: ignore[method-assign]
    with pytest.raises(LeaderElsewhere):
        await log.replica().reaches(100, 3, 50, 0)
    assert set(seen_isolations) == {READ_COMMITTED}


async def test_what_retention_has_deleted_is_not_missed() -> None:
    log = Log()
    log.start = 60
    assert await log.replica().reaches(50, 3, 0, 0) is None
    log.leader = 2
    with pytest.raises(LeaderElsewhere):
        await log.replica().reaches(50, 3, 0, 0)


async def test_a_leader_that_has_not_heard_of_an_epoch_is_behind() -> None:
    log = Log()
    with pytest.raises(BrokerError) as refused:
        await log.replica().reaches(50, 9, 0, 0)
    assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE


async def test_other_errors_are_not_swallowed() -> None:
    log = Log()

    def fail(_: int) -> None:
        raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR)

    log.on_fetch = fail
    with pytest.raises(BrokerError) as refused:
        await log.replica().reaches(50, 3, 0, 0)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_only_a_leader_that_knows_its_high_watermark_knows_all() -> None:
    log = Log()
    await log.replica().knows_all_committed(0)
    log.knows_high_watermark = False
    with pytest.raises(BrokerError) as refused:
        await log.replica().knows_all_committed(0)
    assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    log.leader = 2
    with pytest.raises(LeaderElsewhere):
        await log.replica().knows_all_committed(0)
