"""Topics for tests: each test has its own, so that one broker serves a whole module in any order of tests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping

from tests.servers.wire import Connection, NewRecord, build_batch
from tests.waiting import wait_until

from tidelog.protocol.generated.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.generated.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

_numbers = itertools.count()

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3


def new_name(prefix: str = "topic") -> str:
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


def create_topic(
    connection: Connection,
    prefix: str = "topic",
    *,
    partitions: int = 1,
    configs: Mapping[str, str] | None = None,
) -> str:
    """Create a topic and return its name when every partition can be read."""
    name = new_name(prefix)
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
            )
        ]
    )
    [result] = connection.call(request, 4).topics
    assert result.error_code == 0, result
    wait_until(
        lambda: all(list_offset(connection, name, index, LATEST)[0] == 0 for index in range(partitions)),
        f"{name} can be read",
    )
    return name


def list_offset(connection: Connection, topic: str, partition: int, timestamp: int) -> tuple[int, int, int]:
    """Error code, timestamp and offset."""
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    [answer] = connection.call(request, 7).topics[0].partitions
    return answer.error_code, answer.timestamp, answer.offset


def produce_request(topic: str, batch: bytes, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])


def produce_batch(
    connection: Connection, topic: str, batch: bytes, *, partition: int = 0, version: int = 9
) -> PartitionProduceResponse:
    """Produce with acks=all and return the partition's part of the answer."""
    response = connection.call(produce_request(topic, batch, partition=partition), version)
    answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
    return answer


def produce_values(connection: Connection, topic: str, *values: bytes, partition: int = 0) -> int:
    """Produce one batch that must be taken; returns its first offset."""
    answer = produce_batch(connection, topic, build_batch([NewRecord(value) for value in values]), partition=partition)
    assert answer.error_code == 0, answer
    return answer.base_offset


def fetch_request(
    topic: str, offset: int, *, partition: int = 0, max_wait_ms: int = 500, max_bytes: int = 50 << 20
) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


def fetch_bytes(connection: Connection, topic: str, offset: int = 0, *, partition: int = 0) -> bytes:
    """The record bytes of one fetch that must not fail."""
    response = connection.call(fetch_request(topic, offset, partition=partition), 11)
    [answer] = response.responses[0].partitions
    assert answer.error_code == 0, answer
    return bytes(answer.records or b"")
