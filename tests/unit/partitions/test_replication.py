"""Replication end to end on small clusters: real logs, sockets and fetchers, a controller without a quorum."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.unit.partitions.small_cluster import TOPIC, TOPIC_ID, SmallBroker, SmallCluster
from tests.waiting import eventually

from tidelog.controller.core.decision import Decision
from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from tidelog.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.generated.partition_change_record import PartitionChangeRecord
from tidelog.runtime.clock import monotonic_s
from tidelog.storage.errors import StorageFailure
from tidelog.storage.log_flusher import PendingFlush


async def fetch_response(
    broker: SmallBroker,
    offset: int = 0,
    *,
    epoch: int = -1,
    replica_id: int = -1,
    replica_epoch: int = -1,
    rack: str = "",
    version: int = 17,
    cluster_id: str | None = None,
) -> FetchResponse:
    return await broker.client.call(
        FetchRequest(
            cluster_id=cluster_id,
            replica_state=ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch),
            max_bytes=1 << 20,
            rack_id=rack,
            topics=[
                FetchTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        FetchPartition(
                            partition=0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
        ),
        FetchResponse,
        version=version,
    )


async def fetch(broker: SmallBroker, offset: int = 0, **given: Any) -> PartitionData:
    response = await fetch_response(broker, offset, **given)
    assert not response.error_code
    return response.responses[0].partitions[0]


async def list_offset(broker: SmallBroker, timestamp: int = -1, replica_id: int = -1) -> tuple[int, int]:
    response = await broker.client.call(
        ListOffsetsRequest(
            replica_id=replica_id,
            topics=[
                ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
            ],
        ),
        ListOffsetsResponse,
    )
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.offset


async def test_what_is_acknowledged_is_on_every_replica(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        for number in range(20):
            assert await cluster.leader.produce(b"%d" % number) == (0, number)
        for broker in cluster.brokers.values():
            assert broker.values() == [b"%d" % number for number in range(20)]
        assert set(cluster.state.isr) == {1, 2, 3}
        await eventually(lambda: all(b.partition.high_watermark == 20 for b in cluster.brokers.values()), "watermarks")


async def test_followers_have_the_bytes_of_the_leader(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        for number in range(5):
            await cluster.leader.produce(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=2 * number)
        files = [
            (broker.path / f"{TOPIC}-0" / "00000000000000000000.log").read_bytes()
            for broker in cluster.brokers.values()
        ]
        assert files[0] == files[1] == files[2]
        for broker in cluster.brokers.values():
            assert broker.partition.log.producer_state.snapshot() is not None


async def test_the_new_leader_has_everything_and_knows_the_producer(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        sent = {"producer_id": 7, "producer_epoch": 0}
        assert await cluster.leader.produce(b"a", **sent, base_sequence=0) == (0, 0)
        assert await cluster.leader.produce(b"b", **sent, base_sequence=1) == (0, 1)
        old = cluster.leader
        await old.stop(clean=False)
        cluster.fence(old.node_id)
        assert cluster.leader is not old
        assert await cluster.leader.produce(b"b", **sent, base_sequence=1) == (0, 1), "a repetition, not a new record"
        assert await cluster.leader.produce(b"c", **sent, base_sequence=2) == (0, 2)
        assert cluster.leader.values() == [b"a", b"b", b"c"]
        await old.start()
        await cluster.in_sync(1, 2, 3)
        assert old.values() == [b"a", b"b", b"c"]


async def test_a_follower_whose_log_parted_is_cut_by_epochs(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        await cluster.leader.produce(b"a")
        old = cluster.leader
        old.is_cut_off = True
        cluster.fence(old.node_id)
        # It does not know that it leads no more, and takes records that no replica will copy.
        assert (await old.produce(b"lost 1", b"lost 2", acks=1))[0] == 0
        assert (await cluster.leader.produce(b"b"))[0] == 0
        assert old.values() == [b"a", b"lost 1", b"lost 2"]
        await old.stop()
        old.is_cut_off = False
        await old.start()
        await cluster.in_sync(1, 2, 3)
        assert old.values() == [b"a", b"b"]
        assert (await cluster.leader.produce(b"c"))[0] == 0
        assert old.values() == [b"a", b"b", b"c"]


async def test_acks_all_is_not_answered_by_a_leader_that_was_replaced(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        old = cluster.leader
        old.is_cut_off = True
        cluster.fence(old.node_id)
        error, _ = await old.produce(b"x", timeout_ms=300)
        assert error == ErrorCode.REQUEST_TIMED_OUT


async def test_a_leader_that_hears_of_its_successor_lets_waiting_producers_go(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        old = cluster.leader
        for broker in cluster.brokers.values():
            if broker is not old:
                await broker.replication.stop()
        waiting = asyncio.ensure_future(old.produce(b"x", timeout_ms=60_000))
        await eventually(lambda: old.partition.commit_waiters, "a produce that waits")
        cluster.elect(2)
        assert (await waiting)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await old.produce(b"x"))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_lagging_follower_leaves_the_in_sync_set_and_comes_back(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path, replica_lag_time_max_ms=300) as cluster:
        await cluster.start()
        await cluster.leader.produce(b"a")
        gone = cluster.brokers[3]
        await gone.stop()
        error, offset = await cluster.leader.produce(b"b", timeout_ms=20_000)
        assert (error, offset) == (0, 1)
        # On a busy machine the other one may have been late too: it comes back by itself.
        await cluster.in_sync(1, 2)
        await gone.start()
        await cluster.in_sync(1, 2, 3)
        assert gone.values() == [b"a", b"b"]


async def test_too_few_in_sync_replicas_refuse_before_and_after_the_append(tmp_path: Path) -> None:
    # Longer than it takes to stop two of them: the set is whole when the record is appended.
    async with SmallCluster(tmp_path, replica_lag_time_max_ms=2000) as cluster:
        await cluster.start(min_insync_replicas="2")
        assert (await cluster.leader.produce(b"a"))[0] == 0
        await cluster.brokers[2].stop()
        await cluster.brokers[3].stop()
        error, _ = await cluster.leader.produce(b"b", timeout_ms=20_000)
        assert error == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert (await cluster.leader.produce(b"c"))[0] == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await cluster.leader.produce(b"d", acks=1))[0] == 0
        assert cluster.leader.values() == [b"a", b"b", b"d"]
        assert cluster.leader.partition.high_watermark == 1
        await cluster.brokers[2].start()
        await cluster.in_sync(1, 2)
        await eventually(lambda: cluster.leader.partition.high_watermark == 3, "what was written is committed")


async def test_a_follower_with_a_wiped_disk_copies_everything(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        for number in range(10):
            await cluster.leader.produce(b"%d" % number)
        wiped = cluster.brokers[2]
        await wiped.stop()
        cluster.fence(2)
        for path in (wiped.path / f"{TOPIC}-0").iterdir():
            path.unlink()
        (wiped.path / f"{TOPIC}-0").rmdir()
        for path in wiped.path.iterdir():
            if path.is_file():
                path.unlink()
        await wiped.start()
        await cluster.in_sync(1, 2, 3)
        assert wiped.values() == cluster.leader.values()


async def test_a_follower_below_the_start_of_the_leaders_log_begins_there(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        await cluster.brokers[3].stop()
        cluster.fence(3)
        for number in range(10):
            await cluster.leader.produce(b"%d" % number)
        leader = cluster.leader
        leader.partition.log.writer.roll()
        leader.table.delete_records(leader.partition, 8)
        await cluster.brokers[3].start()
        await cluster.in_sync(1, 2, 3)
        assert cluster.brokers[3].partition.log.log_start_offset == 8
        assert cluster.brokers[3].partition.log.log_end_offset == 10
        await eventually(lambda: cluster.brokers[2].partition.log.log_start_offset == 8, "the start at the other one")


async def test_a_new_partition_does_not_wait_for_a_fetch_of_others(tmp_path: Path) -> None:
    """The fetch that waits at the leader would wait for a minute."""
    async with SmallCluster(tmp_path, replica_fetch_wait_max_ms=60_000, replica_lag_time_max_ms=600_000) as cluster:
        await cluster.start()
        assert (await cluster.leader.produce(b"a"))[0] == 0
        await asyncio.sleep(0.05)
        cluster.add_partition(1)
        assert await asyncio.wait_for(cluster.leader.produce(b"b", index=1), 30) == (0, 0)


async def test_flush_before_ack_holds_on_every_replica(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(tidelog_flush="ack")
        for number in range(5):
            assert (await cluster.leader.produce(b"%d" % number))[0] == 0
            for broker in cluster.brokers.values():
                assert broker.partition.log.recovery_point == number + 1


class GatedSync:
    """Syncs of one partition on one node that do not end before `opened` is set, or fail then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log_directory: Path) -> None:
        self.opened = threading.Event()
        self.failure: StorageFailure | None = None
        sync = PendingFlush.sync

        def gated(flush: PendingFlush) -> None:
            paths = [file.path for file in flush.files]
            if any(path.startswith(str(log_directory)) for path in paths):
                self.opened.wait(60)
                if self.failure is not None:
                    raise self.failure
            sync(flush)

        monkeypatch.setattr(PendingFlush, "sync", gated)


@pytest.mark.parametrize("end", ["moves away", "has another leader", "fails"])
async def test_the_others_do_not_wait_for_a_partition_that_is_not_synced_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async with SmallCluster(tmp_path, replica_lag_time_max_ms=600_000) as cluster:
        await cluster.start(tidelog_flush="ack")
        cluster.add_partition(1)
        follower = cluster.brokers[2]
        gate = GatedSync(monkeypatch, follower.path / f"{TOPIC}-1")
        try:
            waiting = follower.table.find_partition(TOPIC, 1)
            assert waiting is not None
            assert (await cluster.leader.produce(b"a", index=1, acks=1))[0] == 0
            await eventually(lambda: waiting.log.log_end_offset == 1, "what the leader wrote")
            assert not waiting.is_synced
            if end == "fails":
                gate.failure = StorageFailure("the disk is gone")
                gate.opened.set()
            else:
                change = {"replicas": [1, 3], "isr": [1, 3]} if end == "moves away" else {"leader": 3}
                record = PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, **change)
                cluster.decide(lambda _: Decision([record], None))
            assert await asyncio.wait_for(cluster.leader.produce(b"b", timeout_ms=30_000), 30) == (0, 0)
        finally:
            gate.opened.set()


async def test_what_a_restart_finds_is_synced_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is in the page cache, and a producer that sends it again gets the offset that it has had all along."""
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(1, tidelog_flush="ack")
        broker = cluster.leader
        assert (await broker.produce(b"a"))[0] == 0
        gate = GatedSync(monkeypatch, broker.path / f"{TOPIC}-0")
        assert (await broker.produce(b"b", acks=1))[0] == 0
        gate.failure = StorageFailure("the node dies meanwhile")
        gate.opened.set()
        await eventually(lambda: broker.partition.failure is not None, "an end of the sync")
        await broker.stop(clean=False)
        gate.failure = None
        gate.opened.clear()
        try:
            await broker.start()
            assert broker.partition.log.log_end_offset == 2
            assert broker.partition.high_watermark < 2
        finally:
            gate.opened.set()
        await eventually(lambda: broker.partition.high_watermark == 2, "the sync")


async def test_a_follower_that_began_again_at_the_leaders_start_goes_on_with_flush_before_ack(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start(tidelog_flush="ack")
        behind = cluster.brokers[3]
        assert (await cluster.leader.produce(b"0"))[0] == 0
        await behind.stop()
        cluster.fence(3)
        for number in range(1, 6):
            assert (await cluster.leader.produce(b"%d" % number))[0] == 0
        leader = cluster.leader
        leader.partition.log.writer.roll()
        leader.table.delete_records(leader.partition, 6)
        leader.partition.log.rearranger.delete_old_segments(lambda _: True, 6)
        await behind.start()
        assert (await leader.produce(b"6"))[0] == 0
        await cluster.in_sync(1, 2, 3)
        assert behind.partition.log.recovery_point == behind.partition.log.log_end_offset == 7


# -- what readers may see ----------------------------------------------------------------------------------------------


async def test_consumers_read_what_is_committed_and_replicas_all_there_is(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        leader = cluster.leader
        await leader.produce(b"a")
        for broker in cluster.brokers.values():
            if broker is not leader:
                await broker.replication.stop()
        await leader.produce(b"b", acks=1)
        assert leader.partition.high_watermark == 1
        seen = await fetch(leader, 1)
        assert (seen.error_code, len(seen.records or b""), seen.high_watermark) == (0, 0, 1)
        epoch = cluster.image.brokers[2].epoch
        seen = await fetch(leader, 1, replica_id=2, replica_epoch=epoch)
        assert (seen.error_code, seen.high_watermark) == (0, 1)
        assert len(seen.records or b"") > 0
        assert await list_offset(leader) == (0, 1)
        assert await list_offset(leader, replica_id=2) == (0, 2)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(5, ErrorCode.UNKNOWN_LEADER_EPOCH), (0, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.NONE)],
)
async def test_another_idea_of_the_leader_epoch_is_fenced(tmp_path: Path, asked: int, expected: ErrorCode) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        cluster.elect(2)
        assert (await fetch(cluster.brokers[2], epoch=asked)).error_code == expected


async def test_only_the_leader_answers_replicas_and_questions_of_offsets(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        follower = cluster.brokers[3]
        epoch = cluster.image.brokers[2].epoch
        refused = await fetch(follower, replica_id=2, replica_epoch=epoch)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (1, 0)
        assert (await list_offset(follower))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = await follower.produce_response(b"x")
        partition = answer.responses[0].partition_responses[0]
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (1, 0)
        assert [(node.node_id, node.port) for node in answer.node_endpoints] == [(1, cluster.leader.listener.port)]


async def test_a_node_that_is_no_replica_is_refused(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        cluster.brokers[4] = SmallBroker(cluster, 4)
        await cluster.brokers[4].start()
        refused = await fetch(cluster.leader, replica_id=4, replica_epoch=cluster.image.brokers[4].epoch)
        assert refused.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("given", "expected", "words"),
    [
        ({"replica_id": 9, "replica_epoch": 1}, ErrorCode.BROKER_ID_NOT_REGISTERED, "no node 9 is registered"),
        ({"replica_id": 2, "replica_epoch": 1 << 60}, ErrorCode.STALE_BROKER_EPOCH, "broker epoch 1152921504606846976"),
        ({"replica_id": 2, "replica_epoch": -1}, ErrorCode.STALE_BROKER_EPOCH, "broker epoch -1"),
        ({"replica_id": 2, "cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID, "it is of cluster other"),
    ],
)
async def test_who_fetches_in_the_name_of_a_replica_is_refused_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, given: dict[str, Any], expected: ErrorCode, words: str
) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        leader = cluster.leader
        for broker in cluster.brokers.values():
            if broker is not leader:
                await broker.replication.stop()
        await leader.produce(b"a", acks=1)
        before = leader.partition.high_watermark
        caplog.clear()
        response = await fetch_response(leader, 1, **{"replica_epoch": cluster.image.brokers[2].epoch, **given})
        assert (response.error_code, response.responses) == (expected, [])
        [line] = [record.getMessage() for record in caplog.records if "fetch is refused" in record.getMessage()]
        assert words in line
        assert leader.partition.high_watermark == before
        assert leader.partition.leader.followers[2].broker_epoch < 1 << 60


async def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_reads_there(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path, replica_selector_class="rack-aware") as cluster:
        for node_id, rack in ((1, "a"), (2, "b"), (3, "b")):
            cluster.brokers[node_id] = SmallBroker(cluster, node_id, broker_rack=rack)
        await cluster.start()
        await cluster.leader.produce(b"a")
        await eventually(lambda: cluster.brokers[2].partition.high_watermark == 1, "watermark of node 2")
        assert (await fetch(cluster.leader, rack="a")).preferred_read_replica == -1
        sent = await fetch(cluster.leader, rack="b")
        assert sent.preferred_read_replica in (2, 3)
        assert not sent.records
        read = await fetch(cluster.brokers[2], rack="b")
        assert (read.error_code, read.preferred_read_replica) == (0, -1)
        assert read.records


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_a_replica_that_catches_up_can_be_throttled_while_others_are_not(tmp_path: Path, side: str) -> None:
    settings = {f"{side}_replication_throttled_rate": 200_000, "replica_fetch_max_bytes": 60_000}
    async with SmallCluster(tmp_path, **settings) as cluster:
        await cluster.start(**{f"{side}_replication_throttled_replicas": "*"})
        behind = cluster.brokers[3]
        await behind.stop()
        cluster.fence(3)
        for _ in range(10):
            assert (await cluster.leader.produce(b"v" * 50_000))[0] == 0
        started_s = monotonic_s()
        await behind.start()
        while not cluster.image.is_live(3) or 3 not in cluster.state.isr:
            assert (await cluster.leader.produce(b"x"))[0] == 0, "who is in sync is not slowed down"
            await asyncio.sleep(0.02)
        assert monotonic_s() - started_s > 1.0, "500 KB at 200 KB a second, the first second for nothing"


async def test_a_moved_partition_leaves_its_old_node(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        await cluster.leader.produce(b"a")
        record = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1, 2], isr=[1, 2])
        cluster.decide(lambda _: Decision([record], None))
        assert cluster.brokers[3].table.find_partition(TOPIC, 0) is None
        assert not (cluster.brokers[3].path / f"{TOPIC}-0").exists()
        assert (await cluster.brokers[3].produce(b"b"))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await cluster.leader.produce(b"b") == (0, 1)


async def test_the_high_watermark_survives_a_restart_of_everyone(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path) as cluster:
        await cluster.start()
        for number in range(3):
            await cluster.leader.produce(b"%d" % number)
        await eventually(lambda: all(b.partition.high_watermark == 3 for b in cluster.brokers.values()), "watermarks")
        for broker in cluster.brokers.values():
            await broker.stop()
        for broker in cluster.brokers.values():
            await broker.start()
            assert broker.partition.high_watermark == 3
        assert (await cluster.leader.produce(b"3"))[0] == 0
