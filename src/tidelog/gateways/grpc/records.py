"""Records as they are read, of any replica: as many as were asked for, and where to read on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.gateways.access import Read
from tidelog.gateways.grpc.reaching import at_leader
from tidelog.gateways.patience import fetch_patiently
from tidelog.gateways.reading import RecordReader
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.gateways.access import Fetched, LogAccess
    from tidelog.model.ids import TopicPartition

RECORD_OVERHEAD_BYTES: Final = 48
"""About what a message takes beside key and value."""

_BEHIND: Final = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_NOT_AVAILABLE})
"""What a follower says of an offset that it does not have yet; the leader knows whether there is such an offset."""


class FetchedRecords:
    """Iterates over the records from `offset` on, once. `next_offset` is what to ask for next, right at any moment."""

    def __init__(self, fetched: Fetched, offset: int) -> None:
        self.fetched = fetched
        self.next_offset = offset
        self._reader = RecordReader(fetched, offset)

    def __iter__(self) -> Iterator[Record]:
        for record in self._reader:
            self.next_offset = record.offset + 1
            yield record
        # It moves past batches that hold nothing for a reader.
        self.next_offset = self._reader.next_offset


class Found(NamedTuple):
    records: list[Record]
    next_offset: int
    fetched: Fetched


async def fetch(
    access: LogAccess, place: TopicPartition, offset: int, *, max_bytes: int, isolation: int, wait_ms: int = 0
) -> Fetched:
    """From this node's replica, or from the leader where there is none here or it has not come as far."""

    read = Read(*place, offset, max_bytes=max_bytes, wait_ms=wait_ms, isolation=isolation)

    async def ask(at: int | None) -> Fetched:
        return await fetch_patiently(access, read, at)

    try:
        return await at_leader(access, ask)
    except BrokerError as error:
        leader = access.leader_elsewhere(*place).leader
        if error.code not in _BEHIND or leader in (None, access.node_id):
            raise
        return await ask(leader)


async def read_records(
    access: LogAccess, place: TopicPartition, offset: int, *, max_bytes: int, isolation: int, wait_ms: int = 0
) -> Found:
    """Records of about `max_bytes`, at least one if there is any. Batches with nothing to see in them are passed."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_ms / 1000
    while True:
        start = offset
        fetched = await fetch(access, place, start, max_bytes=max_bytes, isolation=isolation, wait_ms=wait_ms)
        records, offset = take(FetchedRecords(fetched, start), max_bytes)
        wait_ms = max(0, int((until_s - loop.time()) * 1000))
        if records or (offset == start and not wait_ms):
            return Found(records, offset, fetched)


def take(found: FetchedRecords, max_bytes: int) -> tuple[list[Record], int]:
    """So many of the records, and the offset behind them: a compressed batch can be far larger than what was asked."""
    records: list[Record] = []
    size = 0
    for record in found:
        size += len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
        if records and size > max_bytes:
            return records, record.offset
        records.append(record)
    return records, found.next_offset
