"""What followers send is what the generated codec writes."""

from __future__ import annotations

import pytest

from tidelog.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from tidelog.protocol.hot_replica_fetch import REPLICA_FETCH_VERSION, PartitionKey, encode_replica_fetch

Positions = dict[PartitionKey, tuple[int, int, int, int]]

A, B = b"a" * 16, b"b" * 16


def generated(named: Positions, forgotten: list[PartitionKey]) -> bytes:
    topics: dict[bytes, list[FetchPartition]] = {}
    for (topic_id, index), (offset, start, epoch, last_epoch) in named.items():
        topics.setdefault(topic_id, []).append(
            FetchPartition(
                partition=index,
                current_leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_epoch,
                log_start_offset=start,
                partition_max_bytes=1000,
            )
        )
    left: dict[bytes, list[int]] = {}
    for topic_id, index in forgotten:
        left.setdefault(topic_id, []).append(index)
    return FetchRequest(
        cluster_id="cluster",
        replica_state=ReplicaState(replica_id=3, replica_epoch=1 << 40),
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10_000_000,
        session_id=77,
        session_epoch=5,
        topics=[FetchTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
        forgotten_topics_data=[
            ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in left.items()
        ],
    ).encode(REPLICA_FETCH_VERSION)


@pytest.mark.parametrize(
    ("named", "forgotten"),
    [
        ({}, []),
        ({(A, 0): (1 << 40, 17, 5, -1)}, []),
        ({(A, 0): (1, 0, 5, 4), (B, 7): (2, 1, 6, 6), (A, 2): (3, 2, 7, 7)}, [(B, 1), (A, 9), (B, 2)]),
        ({(A, index): (index, 0, 0, 0) for index in range(300)}, [(B, index) for index in range(200)]),
        ({(bytes([index]) * 16, 0): (index, 0, 0, 0) for index in range(200)}, []),
    ],
    ids=["nothing", "one", "several topics", "many partitions", "many topics"],
)
def test_the_bytes_are_those_of_the_generated_codec(named: Positions, forgotten: list[PartitionKey]) -> None:
    encoded = encode_replica_fetch(
        node_id=3,
        broker_epoch=1 << 40,
        cluster_id="cluster",
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10_000_000,
        partition_max_bytes=1000,
        session_id=77,
        session_epoch=5,
        named=named,
        forgotten=forgotten,
    )
    assert encoded == generated(named, forgotten)
