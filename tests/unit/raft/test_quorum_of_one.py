"""A quorum of one: elects itself, commits by its own sync, and is what a single node starts with."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.unit.raft.quorums import Cluster, any_of, eventually, topic

from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.no_op_record import NoOpRecord
from tidelog.raft.errors import NotLeader
from tidelog.storage.errors import StorageFailure
from tidelog.storage.log_directory_identity import DirectoryRefused

ONE = any_of(1)


def run(path: Path, test: Callable[[Cluster], Coroutine[Any, Any, None]], **settings: int) -> None:
    async def body() -> None:
        cluster = Cluster(path, **settings)
        try:
            await test(cluster)
        finally:
            await cluster.stop_all()

    asyncio.run(body())


def test_it_leads_when_it_has_started_and_finds_everything_again(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        names = []
        for restart in range(3):
            node = await cluster.start(1, ONE)
            assert node.quorum.is_leader
            assert node.quorum.leader_id == 1
            assert node.state.names == names
            names.append(f"topic-{restart}")
            end_offset = await node.quorum.propose([topic(names[-1])])
            assert node.state.end_offset == end_offset == node.quorum.applied_offset
            assert node.quorum.term == restart + 1
            assert await node.quorum.commands.read_index() == end_offset
            await cluster.stop(1)

    run(tmp_path, test)


def test_proposals_keep_their_order_and_share_syncs(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.start(1, ONE)
        before = node.quorum.syncs
        names = [f"topic-{number}" for number in range(100)]
        ends = await asyncio.gather(*(node.quorum.propose([topic(name)]) for name in names))
        assert list(ends) == sorted(ends)
        assert node.state.names == names
        assert node.quorum.syncs - before < 20

    run(tmp_path, test)


def test_snapshots_shorten_the_log_and_are_loaded(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.start(1, ONE)
        for number in range(60):
            await node.quorum.propose([topic(f"topic-{number}")])
        await eventually(lambda: node.quorum.status().log_start_offset > 0)
        names = node.state.names
        await cluster.stop(1)
        node = await cluster.start(1, ONE)
        assert node.state.snapshots == 1
        assert node.state.names == names

    run(tmp_path, test, snapshot_after_bytes=1000)


def test_a_clean_stop_leaves_a_snapshot_when_it_pays(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.start(1, ONE)
        await node.quorum.propose([topic(f"topic-{number}") for number in range(200)])
        await cluster.stop(1)
        node = await cluster.start(1, ONE)
        assert (node.state.snapshots, len(node.state.names)) == (1, 200)

    run(tmp_path, test)


def test_a_batch_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.start(1, ONE)
        with pytest.raises(BrokerError) as refused:
            await node.quorum.propose([topic("x" * 30_000) for _ in range(250)])
        assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
        assert await node.quorum.propose([NoOpRecord()])

    run(tmp_path, test)


def test_a_disk_that_refuses_ends_the_leadership_and_nothing_comes_back(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.start(1, ONE)
        await node.quorum.propose([topic("before")])

        def refuse(fd: int) -> None:
            raise OSError(28, "No space left on device")

        cluster.disk.fdatasync = refuse
        with pytest.raises(StorageFailure):
            await node.quorum.propose([topic("lost")])
        assert not node.quorum.is_leader
        with pytest.raises(StorageFailure):
            await node.quorum.propose([topic("refused")])
        cluster.disk.fdatasync = os.fdatasync
        await eventually(lambda: node.quorum.is_leader)
        await node.quorum.propose([topic("after")])
        assert node.state.names == ["before", "after"]
        await cluster.stop(1)
        assert (await cluster.start(1, ONE)).state.names == ["before", "after"]

    run(tmp_path, test)


def test_who_proposes_is_told_when_the_disk_does_not_even_take_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.start(1, ONE)
        await node.quorum.propose([topic("before")])

        def refuse(*_: object) -> None:
            raise StorageFailure("no room")

        with monkeypatch.context() as full:
            full.setattr(node.quorum._store, "write", refuse)
            with pytest.raises(StorageFailure):
                await asyncio.wait_for(node.quorum.propose([topic("lost")]), 30)
        await eventually(lambda: node.quorum.is_leader)
        await node.quorum.propose([topic("after")])
        assert node.state.names == ["before", "after"]

    run(tmp_path, test)


def test_a_quorum_that_stops_while_its_disk_refuses_stays_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.start(1, ONE)
        await node.quorum.propose([topic("before")])

        def refuse(fd: int) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as broken:
            broken.setattr(cluster.disk, "fdatasync", refuse)
            with pytest.raises(StorageFailure):
                await node.quorum.propose([topic("lost")])
            await cluster.stop(1)
        await asyncio.sleep(1.2)
        assert not node.quorum.is_leader
        assert (await cluster.start(1, ONE)).state.names[:1] == ["before"]

    run(tmp_path, test)


def test_a_damaged_vote_stops_the_start_and_leaves_everything(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.start(1, ONE)
        await cluster.stop(1)
        [state] = tmp_path.rglob("quorum-state")
        good = state.read_bytes()
        state.write_bytes(good[:-9])
        with pytest.raises(DirectoryRefused, match="may not vote"):
            await cluster.start(1, ONE)
        state.write_bytes(good)
        assert (await cluster.start(1, ONE)).quorum.term == 2

    run(tmp_path, test)


def test_a_stopped_quorum_takes_nothing(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        node = await cluster.start(1, ONE)
        await node.quorum.stop()
        with pytest.raises(NotLeader):
            await node.quorum.propose([topic("late")])

    run(tmp_path, test)


def test_a_state_that_cannot_follow_is_never_written_down(tmp_path: Path) -> None:
    names = [f"topic-{number}" for number in range(100)]

    async def fail(cluster: Cluster) -> None:
        node = await cluster.start(1, ONE, refuses="strange")
        for name in names:
            await node.quorum.propose([topic(name)])
        end_offset = node.quorum.applied_offset
        with pytest.raises(BrokerError, match="strange is not understood"):
            await node.quorum.propose([topic("strange")])
        with pytest.raises(BrokerError, match="strange is not understood"):
            await node.quorum.propose([topic("too late")])
        assert node.failures == [f"the metadata after offset {end_offset} cannot be applied: strange is not understood"]
        assert not node.quorum.is_leader
        assert node.state.leaders[-1] == (-1, 1, False)
        await cluster.stop(1)
        with pytest.raises(DirectoryRefused, match="strange is not understood"):
            await cluster.start(1, ONE, refuses="strange")

    async def go_on(cluster: Cluster) -> None:
        node = await cluster.start(1, ONE)
        assert node.state.names == [*names, "strange"]

    run(tmp_path, fail)
    assert not list(tmp_path.rglob("*.checkpoint")), "a snapshot of it would stand for what it lacks"
    run(tmp_path, go_on)
