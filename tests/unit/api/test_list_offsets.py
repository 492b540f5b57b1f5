"""What ListOffsets tells of records that are not committed, or not known to be."""

from __future__ import annotations

from pathlib import Path

from tests.unit.partitions.small_cluster import TOPIC, SmallBroker, SmallCluster
from tests.waiting import eventually

from tidelog.model.errors import ErrorCode
from tidelog.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.runtime.clock import wall_clock_ms

LATEST = -1
MAX_TIMESTAMP = -3


async def list_offset(broker: SmallBroker, timestamp: int, *, replica_id: int = -1) -> tuple[int, int]:
    """Error code and offset."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])])
    response = await broker.client.call(request, ListOffsetsResponse)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.offset


async def test_a_record_that_is_not_committed_is_not_the_one_with_the_largest_timestamp(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path, replica_lag_time_max_ms=60_000) as cluster:
        await cluster.start(2)
        leader, follower = cluster.brokers[1], cluster.brokers[2]
        began_ms = wall_clock_ms()
        await leader.produce(b"committed")
        assert await list_offset(leader, MAX_TIMESTAMP) == (0, 0)
        await follower.replication.stop()
        await leader.produce(b"on one node only", acks=1)
        assert await list_offset(leader, MAX_TIMESTAMP) == (0, -1)
        assert await list_offset(leader, MAX_TIMESTAMP, replica_id=2) == (0, 1)
        assert await list_offset(leader, LATEST) == (0, 1)
        assert await list_offset(leader, began_ms) == (0, 0)


async def test_a_new_leader_tells_what_it_knows_to_be_committed_and_nothing_else(tmp_path: Path) -> None:
    async with SmallCluster(tmp_path, replica_lag_time_max_ms=60_000) as cluster:
        await cluster.start(2)
        first, second = cluster.brokers[1], cluster.brokers[2]
        began_ms = wall_clock_ms()
        await first.produce(b"committed")
        await eventually(lambda: second.partition.high_watermark == 1, "the follower knows that it is committed")
        # It leads without followers, and in its next epoch it has more than it knows to be committed.
        await second.replication.stop()
        await first.replication.stop()
        cluster.elect(2)
        leader = cluster.leader
        assert leader is second
        assert await leader.produce(b"more", acks=1) == (0, 1)
        cluster.elect(2)
        assert not leader.partition.leader.knows_high_watermark
        assert await list_offset(leader, LATEST) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert await list_offset(leader, began_ms + 3_600_000) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert await list_offset(leader, began_ms) == (0, 0), "what is below the high watermark it has is committed"
        assert await list_offset(leader, MAX_TIMESTAMP) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
