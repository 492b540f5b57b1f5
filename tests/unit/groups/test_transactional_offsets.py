"""Offsets committed in transactions: held back until the marker, and only those."""

from __future__ import annotations

import pytest
from tests.unit.coordination.memory_log import MemoryLog

from tidelog.coordination.decision import Moment
from tidelog.coordination.host import CoreHost
from tidelog.coordination.log import Marker
from tidelog.groups.core.messages import (
    Commit,
    DeleteOffsets,
    FetchedOffset,
    FetchOffsets,
    OffsetsToFetch,
    OffsetToCommit,
)
from tidelog.groups.core.messages import TransactionalCommit as InTransaction
from tidelog.groups.core.settings import GroupSettings
from tidelog.groups.core.shard import GroupShard
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.runtime.clock import wall_clock_ms

pytestmark = pytest.mark.anyio
NOW = Moment(0, 1_700_000_000_000)
RETENTION_MS = GroupSettings().offsets_retention_ms


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

    async def commit(self, offset: int, producer_id: int = -1, partition: int = 0, **member: object) -> None:
        plain = {"member_id": "", "instance_id": None, "generation": -1, **member}
        commit = Commit("g", offsets=[OffsetToCommit("t", partition, offset)], **plain)  # type: ignore[arg-type]
        core = self.host.core
        if producer_id < 0:
            codes = await self.host.execute(core.decide_commit, commit)
        else:
            codes = await self.host.execute(core.decide_transactional_commit, InTransaction(producer_id, 0, commit))
        assert list(codes) == [ErrorCode.NONE]

    def end(self, producer_id: int, *, commit: bool) -> None:
        assert self.host.end_transaction(Marker(producer_id, 0, commit, 0)) is None

    def clean_up(self, after_ms: int) -> None:
        """As if it were that much later."""
        core = self.host.core
        due_ms = core.deadline_ms()
        assert due_ms is not None
        then = Moment(due_ms, wall_clock_ms() + after_ms)
        while (core.deadline_ms() or 0) <= due_ms:
            self.host.perform(lambda _request, _now: core.decide_deadlines(then), None)

    async def fetch(self, *, stable: bool = False, partition: int = 0) -> FetchedOffset:
        request = FetchOffsets("g", [OffsetsToFetch("t", [partition])], require_stable=stable)
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


@pytest.mark.parametrize("has_committed", [False, True])
@pytest.mark.parametrize("way", ["group", "offset", "topic"])
async def test_what_was_deleted_while_it_waited_does_not_come_back(way: str, has_committed: bool) -> None:
    world = World()
    if has_committed:
        await world.commit(3)
    await world.commit(7, producer_id=1)
    await world.commit(8, producer_id=2)
    world = await world.reloaded()
    core = world.host.core
    if way == "group":
        assert await world.host.execute(core.decide_delete_groups, ["g"]) == [("g", ErrorCode.NONE)]
    elif way == "offset":
        deleted = await world.host.execute(core.decide_delete_offsets, DeleteOffsets("g", [("t", [0])]))
        assert deleted == [("t", [(0, ErrorCode.NONE)])]
    else:
        await world.host.execute(core.decide_topics_deleted, ({"t"}, core.offsets.group_ids()))
    assert [value for _, value in world.log.batches_written[-1]].count(None) == len(world.log.batches_written[-1])
    world = await world.reloaded()
    world.end(1, commit=True)
    world.end(2, commit=True)
    assert (await world.fetch(stable=True)).offset == -1
    await world.commit(9, producer_id=1)
    world.end(1, commit=True)
    assert (await world.fetch(stable=True)).offset == 9, "what came after the deletion counts"
    await world.reloaded()


async def test_a_group_is_known_by_offsets_that_wait() -> None:
    world = World()
    await world.commit(7, producer_id=1)
    world = await world.reloaded()
    assert [group.group_id for group in world.host.core.list_groups(((), ()), NOW).reply] == ["g"]


async def test_only_offsets_that_no_transaction_holds_expire() -> None:
    world = World()
    await world.commit(3)
    await world.commit(4, partition=1)
    await world.commit(7, producer_id=1)
    world.clean_up(RETENTION_MS)
    assert (await world.fetch()).offset == 3
    assert (await world.fetch(partition=1)).offset == -1
    world.end(1, commit=False)
    world.clean_up(2 * RETENTION_MS)
    assert (await world.fetch()).offset == -1
    assert not world.host.core.groups


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
