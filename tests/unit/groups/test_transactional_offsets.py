"""Offsets committed in transactions: held back until the marker, and only those."""

from __future__ import annotations

import pytest
from tests.unit.coordination.memory_log import MemoryLog

from tidelog.coordination.decision import Moment
from tidelog.coordination.host import CoreHost
from tidelog.coordination.log import Marker
from tidelog.groups.core.messages import Commit, FetchedOffset, FetchOffsets, OffsetsToFetch, OffsetToCommit
from tidelog.groups.core.messages import TransactionalCommit as InTransaction
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.shard import GroupShard
from tidelog.model.errors import BrokerError, ErrorCode

pytestmark = pytest.mark.anyio
NOW = Moment(0, 1_700_000_000_000)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class World:
    """A shard on a log in memory."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self.log = log or MemoryLog()
        self.host = CoreHost(GroupShard(GroupSettings()), self.log, name="offsets-0")
        if log is None:
            self.host.activate()

    async def commit(self, offset: int, producer_id: int = -1, **member: object) -> None:
        plain = {"member_id": "", "instance_id": None, "generation": -1, **member}
        commit = Commit("g", offsets=[OffsetToCommit("t", 0, offset)], **plain)  # type: ignore[arg-type]
        core = self.host.core
        if producer_id < 0:
            codes = await self.host.execute(core.decide_commit, commit)
        else:
            codes = await self.host.execute(core.decide_transactional_commit, InTransaction(producer_id, 0, commit))
        assert list(codes) == [ErrorCode.NONE]

    def end(self, producer_id: int, *, commit: bool) -> None:
        assert self.host.end_transaction(Marker(producer_id, 0, commit, 0)) is None

    async def fetch(self, *, stable: bool = False) -> FetchedOffset:
        request = FetchOffsets("g", [OffsetsToFetch("t", [0])], require_stable=stable)
        [(_, _, [found])] = await self.host.execute(self.host.core.fetch_offsets, request)
        return found

    async def reloaded(self) -> World:
        self.host.unload()
        other = World(self.log)
        await other.host.load()
        ours, theirs = self.host.core.offsets, other.host.core.offsets
        assert theirs.of_group("g") == ours.of_group("g")
        assert theirs.pending.snapshot() == ours.pending.snapshot()
        return other


async def test_they_count_after_the_marker() -> None:
    world = World()
    await world.commit(3)
    await world.commit(7, producer_id=1)
    assert (await world.fetch()).offset == 3
    unstable = await world.fetch(stable=True)
    assert (unstable.offset, unstable.error) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    world = await world.reloaded()
    assert (await world.fetch()).offset == 3
    world.end(1, commit=True)
    assert (await world.fetch(stable=True)).offset == 7
    await world.reloaded()


async def test_an_abort_drops_them() -> None:
    world = World()
    await world.commit(3)
    await world.commit(7, producer_id=1)
    world.end(1, commit=False)
    assert (await world.fetch(stable=True)).offset == 3
    world.end(1, commit=True)
    assert (await world.fetch(stable=True)).offset == 3, "a second marker finds nothing"
    await world.reloaded()


async def test_the_later_commit_in_the_log_wins_whichever_transaction_ends_first() -> None:
    world = World()
    await world.commit(1, producer_id=1)
    await world.commit(2, producer_id=2)
    world.end(2, commit=True)
    world = await world.reloaded()
    world.end(1, commit=True)
    assert (await world.fetch(stable=True)).offset == 2
    await world.commit(3, producer_id=1)
    await world.commit(4)
    world.end(1, commit=True)
    assert (await world.fetch(stable=True)).offset == 4, "a plain commit came after it"
    await world.reloaded()


async def test_an_aborted_later_one_does_not_hide_an_earlier_one() -> None:
    world = World()
    await world.commit(1, producer_id=1)
    await world.commit(2, producer_id=2)
    world.end(2, commit=False)
    world.end(1, commit=True)
    assert (await world.fetch(stable=True)).offset == 1
    await world.reloaded()


async def test_who_may_commit_in_a_transaction() -> None:
    world = World()
    with pytest.raises(BrokerError) as refused:
        await world.commit(1, producer_id=1, generation=3, member_id="nobody")
    assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
    assert world.log.end_offset == 0


async def test_a_marker_that_cannot_be_written_settles_nothing() -> None:
    world = World()
    await world.commit(7, producer_id=1)
    world.log.refusal = BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS)
    with pytest.raises(BrokerError):
        world.end(1, commit=True)
    assert (await world.fetch(stable=True)).error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.log.refusal = None
    world.log.commits_at_once = False
    waiting = world.host.end_transaction(Marker(1, 0, True, 0))
    assert waiting is not None
    world.log.commit()
    await waiting
    assert (await world.fetch(stable=True)).offset == 7
