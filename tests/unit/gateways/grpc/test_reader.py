"""Streams against an access to the log that is made up: what is bounded, and what ends them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tidelog.gateways.access import EARLIEST, Fetched, FoundOffset, LeaderElsewhere, Read
from tidelog.gateways.grpc.reader import Reader
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.records.builder import NewRecord, build_batch

PLACE = TopicPartition("t", 0)


class Log:
    """Has as many records as are asked for, in batches of ten, from `start` on."""

    node_id = 1

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.fetches = 0
        self.fault: BrokerError | None = None

    async def fetch(self, read: Read, **_: Any) -> Fetched:
        self.fetches += 1
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        if read.offset < self.start:
            raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE)
        batch = build_batch([NewRecord(None, b"v", 1)] * 10, base_offset=read.offset)
        return Fetched(10**6, 10**6, self.start, (), batch)

    async def list_offset(self, topic: str, index: int, timestamp: int, **_: Any) -> FoundOffset:
        assert timestamp == EARLIEST
        return FoundOffset(self.start, -1, 0)

    def leader_elsewhere(self, topic: str, index: int) -> Any:
        return LeaderElsewhere(topic, index, 1)


def new_reader(log: Log, records_max: int = 25, chunk_records_max: int = 10) -> Reader:
    return Reader(log, records_max=records_max, chunk_records_max=chunk_records_max)  # type: ignore[arg-type]


async def settled() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


async def test_nothing_is_read_beyond_the_limit() -> None:
    log = Log()
    reader = new_reader(log)
    reader.start({PLACE: 0, TopicPartition("t", 1): 0})
    await settled()
    before = log.fetches
    await settled()
    assert log.fetches == before == 4, "two chunks of ten fit, and each partition has one more that waits"
    chunk = await reader.next()
    assert (chunk.place, len(chunk.records), chunk.next_offset) == (PLACE, 10, 10)
    await settled()
    assert log.fetches == before + 1
    await reader.close()


async def test_chunks_are_no_larger_than_asked() -> None:
    reader = new_reader(Log(), records_max=4, chunk_records_max=100)
    reader.start({PLACE: 0})
    chunks = [await reader.next() for _ in range(5)]
    assert [len(chunk.records) for chunk in chunks] == [4, 4, 2, 4, 4]
    assert [chunk.next_offset for chunk in chunks] == [4, 8, 10, 14, 18]
    await reader.close()


async def test_what_retention_has_removed_is_passed_over() -> None:
    reader = new_reader(Log(start=50))
    reader.start({PLACE: 3})
    assert (await reader.next()).records[0].offset == 50
    await reader.close()


async def test_a_fault_ends_the_stream_behind_what_was_read() -> None:
    log = Log()
    reader = new_reader(log)
    reader.start({PLACE: 0})
    await settled()
    log.fault = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert [(await reader.next()).next_offset for _ in range(3)] == [10, 20, 30]
    with pytest.raises(BrokerError) as caught:
        await reader.next()
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await reader.close()
