"""A stream of records to append, answered once, for its last record.

Nobody waits for an answer before the end, so records are collected for a few milliseconds and appended as batches. The
records of a partition keep their order: one batch of it is under way at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple

from tidelog.gateways.batching import size_of
from tidelog.gateways.grpc.appending import ACKS_NONE, BY_KEY, append, encode_batch, partition_for
from tidelog.gateways.grpc.calls import END
from tidelog.gateways.grpc.generated.mq_pb2 import ProduceResponse
from tidelog.gateways.grpc.status import invalid
from tidelog.model.limits import GRPC_STREAM_BATCH_BYTES_MAX, GRPC_STREAM_PENDING_BYTES_MAX
from tidelog.records.builder import NewRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.gateways.access import Appended, LogAccess
    from tidelog.gateways.grpc.calls import Read
    from tidelog.gateways.grpc.generated.mq_pb2 import ProduceRequest

LINGER_S = 0.005
"""How long a record waits for others."""


class _Target(NamedTuple):
    topic: str
    partition: int
    acks: int


class ProduceStream:
    def __init__(self, access: LogAccess, now_ms: Callable[[], int]) -> None:
        self._access = access
        self._now_ms = now_ms
        self._pending: dict[_Target, list[NewRecord]] = {}
        self._pending_bytes = 0
        self._flushing: asyncio.Task[None] | None = None
        self._fault: Exception | None = None
        self._is_urgent = asyncio.Event()
        self._last: dict[_Target, tuple[Appended, int, int]] = {}
        """Of the last record appended so far: the answer, its place in the batch and its time."""

    async def run(self, read: Read) -> ProduceResponse:
        last: _Target | None = None
        running = asyncio.current_task()
        assert running is not None, "a call is a task"
        try:
            while (request := await read()) is not END:
                last = await self._add(request)
                flushing = self._flushing
                if flushing is None or flushing.done():
                    self._flushing = asyncio.ensure_future(self._flush(running))
                elif self._pending_bytes > GRPC_STREAM_PENDING_BYTES_MAX:
                    self._is_urgent.set()
                    await flushing
            if last is None:
                raise invalid("The stream ended without a record.")
            self._is_urgent.set()
            if self._flushing is not None:
                await self._flushing
            await self._append_all(self._pending)
            if self._fault is not None:
                # Here the cancellation arrives that came with the fault.
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self._fault is None:
                raise
            running.uncancel()
            raise self._fault from None
        finally:
            if self._flushing is not None:
                self._flushing.cancel()
                await asyncio.gather(self._flushing, return_exceptions=True)
        return self._response(last)

    async def _add(self, request: ProduceRequest) -> _Target:
        partition = request.partition
        if partition == BY_KEY or request.topic not in self._access.image.topics:
            partition = await partition_for(self._access, request.topic, partition, request.key or None)
        target = _Target(request.topic, partition, request.acks)
        headers = request.headers
        key, value = request.key, request.value
        record = NewRecord(
            key or None,
            value,
            self._now_ms(),
            tuple((name, content.encode()) for name, content in headers.items()) if headers else (),
        )
        records = self._pending.get(target)
        if records is None:
            self._pending[target] = [record]
        else:
            records.append(record)
        self._pending_bytes += size_of(record)
        return target

    async def _flush(self, running: asyncio.Task[object]) -> None:
        """Appends what is there after the linger time, or as soon as it is urgent. A fault ends the reading: the client
        may have nothing more to send until it learns of it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await self._is_urgent.wait()
        self._is_urgent.clear()
        pending, self._pending, self._pending_bytes = self._pending, {}, 0
        try:
            await self._append_all(pending)
        except Exception as fault:
            self._fault = fault
            running.cancel()

    async def _append_all(self, pending: dict[_Target, list[NewRecord]]) -> None:
        for target, records in pending.items():
            for batch in batches_of(records):
                appended = await append(self._access, target.topic, target.partition, encode_batch(batch), target.acks)
                self._last[target] = appended, len(batch) - 1, batch[-1].timestamp

    def _response(self, target: _Target) -> ProduceResponse:
        appended, place, timestamp = self._last[target]
        return ProduceResponse(
            offset=-1 if target.acks == ACKS_NONE else appended.base_offset + place,
            partition=target.partition,
            timestamp=appended.log_append_time_ms if appended.log_append_time_ms >= 0 else timestamp,
        )


def batches_of(records: Sequence[NewRecord]) -> list[Sequence[NewRecord]]:
    """Of about the same size; a record that is larger has one of its own."""
    batches: list[Sequence[NewRecord]] = []
    start = size = 0
    for place, record in enumerate(records):
        record_bytes = size_of(record)
        if size and size + record_bytes > GRPC_STREAM_BATCH_BYTES_MAX:
            batches.append(records[start:place])
            start, size = place, 0
        size += record_bytes
    batches.append(records[start:])
    return batches
