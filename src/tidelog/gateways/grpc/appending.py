"""Appending batches: the topic is made sure of, and the leader is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.gateways.grpc.reaching import at_leader
from tidelog.gateways.grpc.status import invalid
from tidelog.gateways.partitioner import next_turn, partition_of_key
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.records.builder import build_batch, build_batch_of_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.gateways.access import Appended, LogAccess
    from tidelog.records.builder import NewRecord

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
BY_KEY: Final = -1


async def partition_for(access: LogAccess, topic: str, partition: int, key: bytes | None) -> int:
    """The partition that is named, or that of the key; without one, any. Creates the topic where that is allowed."""
    if not topic:
        raise invalid("A topic must be named.")
    if topic not in access.image.topics:
        await access.ensure_topic(topic)
    if partition != BY_KEY:
        return partition
    count = partition_count(access, topic)
    return next_turn(count) if key is None else await partition_of_key(key, count)


def partition_count(access: LogAccess, topic: str) -> int:
    found = access.image.topics.get(topic)
    if found is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}.")
    return len(found.partitions)


def encode_batch(records: Sequence[NewRecord]) -> bytes:
    """Records that have only values and one time, as most do, make a batch in a third of the time."""
    first_timestamp = records[0].timestamp
    values: list[bytes] = []
    for key, value, timestamp, headers in records:
        if key is not None or value is None or headers or timestamp != first_timestamp:
            return build_batch(records)
        values.append(value)
    return build_batch_of_values(values, first_timestamp)


async def append(
    access: LogAccess, topic: str, partition: int, batch: bytes, acks: int, timeout_ms: int = 30_000
) -> Appended:
    """Without acks it is appended as with those of the leader: here the answer costs nothing, and an error is told."""
    leader_acks = ACKS_LEADER if acks == ACKS_NONE else acks
    return await at_leader(
        access,
        lambda at: access.produce(topic, partition, batch, acks=leader_acks, timeout_ms=timeout_ms, at=at),
        repeats=False,
    )
