"""Quorums of several nodes with real disks: failover, members that come and go, and strangers."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest
from tests.unit.raft.quorums import Cluster, Node, any_of, eventually, topic
from tests.unit.raft.test_quorum_of_one import run

from tidelog.model.errors import ErrorCode
from tidelog.raft import store
from tidelog.raft.core.effects import HardState
from tidelog.raft.core.members import ANY_DIRECTORY, NO_MEMBERS, Member
from tidelog.raft.errors import MembershipRefused, NotLeader
from tidelog.raft.quorum_state import read_quorum_state, write_quorum_state
from tidelog.runtime.disk import Disk
from tidelog.storage.errors import StorageFailure

THREE = any_of(1, 2, 3)


async def start_three(cluster: Cluster) -> Node:
    for node_id in (1, 2, 3):
        await cluster.start(node_id, THREE)
    return await cluster.leader()


async def agreed(cluster: Cluster, *names: str) -> None:
    """All have the same, and these names are all there is; one whose fate was not known may be there twice."""

    def same() -> bool:
        states = [node.state.names for node in cluster.nodes.values()]
        return all(state == states[0] for state in states) and set(states[0]) == set(names)

    await eventually(same)


def test_what_the_leader_acknowledges_reaches_everyone(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await start_three(cluster)
        names = [f"topic-{number}" for number in range(200)]
        await cluster.propose(*names)
        await agreed(cluster, *names)
        leader = await cluster.leader()
        other = next(node for node in cluster.nodes.values() if node is not leader)
        await eventually(lambda: other.quorum.leader_id >= 0)
        if not other.quorum.is_leader:
            with pytest.raises(NotLeader):
                await other.quorum.propose([topic("nowhere")])

    run(tmp_path, test)


def test_the_others_go_on_without_their_leader_and_it_comes_back(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await start_three(cluster)
        await cluster.propose("first")
        gone = (await cluster.leader()).settings.node_id
        cut_off = cluster.nodes.pop(gone)
        await cluster.propose("second")
        await cut_off.quorum.stop()
        await cluster.start(gone, THREE)
        await agreed(cluster, "first", "second")

    run(tmp_path, test)


@pytest.mark.parametrize("is_dead", [True, False])
def test_a_leader_whose_connections_broke_is_replaced_at_once_only_if_it_is_gone(tmp_path: Path, is_dead: bool) -> None:
    """Elections by timeout would take longer than the test."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.start(1, any_of(1))
        for node_id in (2, 3):
            await cluster.start(node_id, NO_MEMBERS)
            await leader.quorum.commands.add_voter(Member(node_id, bytes([node_id]) * 16))
        await eventually(lambda: {node.quorum.leader_id for node in cluster.nodes.values()} == {1})
        dead = cluster.nodes.pop(1) if is_dead else None
        for node_id in (2, 3):
            cluster.nodes[node_id].quorum.connection_lost(1)
        if dead is not None:
            await cluster.propose("goes on")
            await dead.quorum.stop()
        else:
            term = leader.quorum.term
            await cluster.propose("goes on")
            await agreed(cluster, "goes on")
            assert {node.quorum.term for node in cluster.nodes.values()} == {term}

    run(tmp_path, test, election_timeout_ms=20_000, heartbeat_interval_ms=500)


def test_a_leader_that_stops_hands_over(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        await start_three(cluster)
        await cluster.propose("first")
        leader = await cluster.leader()
        await cluster.stop(leader.settings.node_id)
        assert leader.quorum.leader_id != leader.settings.node_id
        await cluster.propose("second")
        await agreed(cluster, "first", "second")

    run(tmp_path, test)


def test_a_leader_whose_successor_does_not_answer_stops_all_the_same(tmp_path: Path) -> None:
    """A leader that hands over waits as long as it was asked to, not until the next election would be due."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.start(1, any_of(1))
        await cluster.start(2, NO_MEMBERS)
        await leader.quorum.commands.add_voter(Member(2, bytes([2]) * 16))
        silent = cluster.nodes.pop(2)
        async with asyncio.timeout(30):
            with pytest.raises(MembershipRefused) as refused:
                await leader.quorum.commands.transfer_leadership(timeout_s=0.2)
            assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
            await leader.quorum.stop()
        await silent.quorum.stop()

    run(tmp_path, test, election_timeout_ms=60_000, heartbeat_interval_ms=500)


def test_a_node_that_joins_late_gets_the_snapshot_and_a_vote(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.start(1, any_of(1))
        names = [f"topic-{number}" for number in range(80)]
        for name in names:
            await leader.quorum.propose([topic(name)])
        await eventually(lambda: leader.quorum.status().log_start_offset > 0)
        late = await cluster.start(2, NO_MEMBERS)
        assert late.quorum.status().role == "outsider"
        await leader.quorum.commands.add_voter(Member(2, bytes([2]) * 16, "localhost", 1))
        await agreed(cluster, *names)
        assert late.state.snapshots == 1
        await eventually(lambda: late.quorum.members.voter_ids == (1, 2))
        await cluster.on_leader(lambda quorum: quorum.commands.transfer_leadership(2))
        await eventually(lambda: late.quorum.is_leader)
        await cluster.on_leader(lambda quorum: quorum.commands.remove_member(1))
        await eventually(lambda: late.quorum.is_leader)
        await late.quorum.propose([topic("alone")])
        assert late.quorum.members.voter_ids == (2,)

    run(tmp_path, test, snapshot_after_bytes=1000)


def test_a_learner_follows_and_does_not_count(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.start(1, any_of(1))
        learner = await cluster.start(2, NO_MEMBERS)
        await leader.quorum.commands.add_learner(Member(2, bytes([2]) * 16))
        await cluster.propose("first")
        await agreed(cluster, "first")
        assert learner.quorum.status().role == "learner"
        await cluster.stop(2)
        await cluster.propose("second")
        [status] = leader.quorum.status().learners
        assert status.lag > 0

    run(tmp_path, test)


def test_refused_changes_say_why(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        leader = await cluster.start(1, any_of(1))
        with pytest.raises(MembershipRefused) as last:
            await leader.quorum.commands.remove_member(1)
        assert last.value.code == ErrorCode.INVALID_REQUEST
        with pytest.raises(MembershipRefused) as unknown:
            await leader.quorum.commands.remove_member(5)
        assert unknown.value.code == ErrorCode.VOTER_NOT_FOUND
        with pytest.raises(MembershipRefused) as silent:
            await leader.quorum.commands.add_voter(Member(2, bytes([2]) * 16), timeout_s=0.3)
        assert silent.value.code == ErrorCode.REQUEST_TIMED_OUT
        assert leader.quorum.members.is_learner(2)

    run(tmp_path, test)


def test_a_member_that_was_removed_is_refused_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: Cluster) -> None:
        leader = await start_three(cluster)
        old = next(node_id for node_id in cluster.nodes if node_id != leader.settings.node_id)
        await cluster.stop(old)
        await cluster.on_leader(lambda quorum: quorum.commands.remove_member(old))
        await cluster.propose("without it")
        returned = (await cluster.start(old, THREE)).quorum
        term = returned.term
        await eventually(lambda: "is no member of the quorum" in caplog.text)
        await eventually(lambda: returned.status().role == "pre-candidate")
        assert returned.term == term, "it asks, and its term stays as it was"
        await cluster.propose("undisturbed")
        told = [record for record in caplog.records if "traffic refused" in record.getMessage()]
        assert len(told) <= 4, "one line here and one there, however often it asks"

    with caplog.at_level(logging.WARNING, "tidelog.raft"):
        run(tmp_path, test)


def test_a_node_of_another_cluster_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: Cluster) -> None:
        leader = await start_three(cluster)
        await cluster.propose("first")
        other = next(node_id for node_id in cluster.nodes if node_id != leader.settings.node_id)
        await cluster.stop(other)
        await cluster.start(other, THREE, cluster_id="another", folder="another")
        await eventually(lambda: "belongs to cluster" in caplog.text)
        await cluster.propose("second")

    with caplog.at_level(logging.WARNING, "tidelog.raft"):
        run(tmp_path, test)


def test_a_member_with_a_wiped_disk_is_not_the_member_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(cluster: Cluster) -> None:
        leader = await start_three(cluster)
        await eventually(lambda: all(member.directory_id != ANY_DIRECTORY for member in leader.quorum.members))
        wiped = next(node_id for node_id in cluster.nodes if node_id != leader.settings.node_id)
        await cluster.stop(wiped)
        node = await cluster.start(wiped, THREE, directory_id=b"w" * 16, folder="wiped")
        await eventually(lambda: "another data directory" in caplog.text)
        await cluster.propose("first")
        assert node.state.names == []
        await cluster.on_leader(lambda quorum: quorum.commands.add_voter(Member(wiped, b"w" * 16)))
        await agreed(cluster, "first")
        await eventually(lambda: node.quorum.members.voter_ids == (1, 2, 3))

    with caplog.at_level(logging.WARNING, "tidelog.raft"):
        run(tmp_path, test)


def test_a_term_that_the_disk_refused_is_on_it_before_the_member_takes_part_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(cluster: Cluster) -> None:
        leader = await start_three(cluster)
        node = next(node for node in cluster.nodes.values() if node is not leader)
        refused: list[HardState] = []

        def refuse_once(directory: str, state: HardState, disk: Disk) -> None:
            if Path(directory).parent.name == str(node.settings.node_id) and not refused:
                refused.append(state)
                raise OSError("the disk refuses")
            write_quorum_state(directory, state, disk)

        monkeypatch.setattr(store, "write_quorum_state", refuse_once)
        await cluster.stop(leader.settings.node_id)
        await eventually(lambda: bool(refused))
        for node_id in set(cluster.nodes) - {node.settings.node_id}:
            await cluster.stop(node_id)

        def is_on_disk() -> bool:
            found = read_quorum_state(str(tmp_path / str(node.settings.node_id) / "__cluster_metadata-0"))
            return found is not None and found.term == node.quorum.term >= refused[0].term

        await eventually(is_on_disk)
        await eventually(lambda: node.quorum._outage is None)

    run(tmp_path, test)


def test_a_member_that_cannot_follow_drops_out_and_the_others_go_on(tmp_path: Path) -> None:
    async def test(cluster: Cluster) -> None:
        for node_id in (1, 2):
            await cluster.start(node_id, any_of(1, 2))
        lost = await cluster.start(3, NO_MEMBERS, refuses="strange")
        await cluster.on_leader(lambda quorum: quorum.commands.add_learner(Member(3, lost.settings.directory_id)))
        await cluster.propose("first", "strange", "last")
        await eventually(lambda: bool(lost.failures))
        await cluster.propose("after")
        for node_id in (1, 2):
            await eventually(lambda state=cluster.nodes[node_id].state: "after" in state.names)
        assert "strange is not understood" in lost.failures[0]
        assert "strange" not in lost.state.names
        assert "after" not in lost.state.names
        assert not lost.quorum.is_leader
        with pytest.raises(ConnectionError):
            await lost.quorum.receive(b"")

    run(tmp_path, test)


def test_a_member_whose_disk_refuses_waits_without_spinning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(cluster: Cluster) -> None:
        leader = await start_three(cluster)
        member = next(node for node in cluster.nodes.values() if node is not leader)
        ticks, tick = [], member.quorum._tick

        def count() -> None:
            ticks.append(time.monotonic())
            tick()

        def refuse(*_: object) -> None:
            raise StorageFailure("no room")

        with monkeypatch.context() as full:
            full.setattr(member.quorum, "_tick", count)
            full.setattr(member.quorum._store, "write", refuse)
            await cluster.propose("first")
            await eventually(lambda: member.quorum._outage is not None)
            ticks.clear()
            # Longer than it would wait for its leader, shorter than until it tries again.
            await asyncio.sleep(0.7)
            assert len(ticks) <= 1
        await agreed(cluster, "first")

    run(tmp_path, test)
