"""Produce, ProduceStream, Fetch, Subscribe and ListOffset of `tidelog.v1.Log`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.gateways.access import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from tidelog.gateways.grpc.calls import END
from tidelog.gateways.grpc.generated import tidelog_pb2
from tidelog.gateways.grpc.generated.tidelog_pb2 import Error, FetchResponse, ListOffsetResponse, ProduceResponse
from tidelog.gateways.grpc.log.batches import message_of
from tidelog.gateways.grpc.log.producing import produce
from tidelog.gateways.grpc.reaching import at_leader
from tidelog.gateways.grpc.records import read_records
from tidelog.gateways.grpc.status import invalid
from tidelog.gateways.grpc.subscription import Subscription
from tidelog.model.errors import BrokerError
from tidelog.model.ids import TopicPartition
from tidelog.model.limits import GRPC_READ_BYTES_DEFAULT, GRPC_READ_BYTES_MAX

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.calls import Read, Write
    from tidelog.gateways.grpc.generated.tidelog_pb2 import (
        FetchRequest,
        ListOffsetRequest,
        ProduceRequest,
        SubscribeRequest,
    )
    from tidelog.gateways.grpc.reader import Chunk
    from tidelog.gateways.grpc.shared import Shared

CHUNK_RECORDS: Final = 1_000
WAIT_MS_MAX: Final = 30_000


class RecordMethods:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def produce(self, access: LogAccess, request: ProduceRequest) -> ProduceResponse:
        return await produce(access, request, self._shared.now_ms())

    async def produce_stream(self, access: LogAccess, read: Read, write: Write) -> None:
        """One after the other: the records of a partition keep the order of the stream, also where an attempt fails."""
        while (request := await read()) is not END:
            try:
                response = await produce(access, request, self._shared.now_ms())
            except BrokerError as error:
                response = ProduceResponse(number=request.number, error=_error(error))
            await write(response)

    async def fetch(self, access: LogAccess, request: FetchRequest) -> FetchResponse:
        if request.max_bytes < 0 or not 0 <= request.wait_ms <= WAIT_MS_MAX:
            raise invalid(f"max_bytes is not negative, and wait_ms between 0 and {WAIT_MS_MAX}.")
        place = TopicPartition(request.topic, request.partition)
        read = await read_records(
            access,
            place,
            request.offset,
            max_bytes=min(request.max_bytes or GRPC_READ_BYTES_DEFAULT, GRPC_READ_BYTES_MAX),
            isolation=isolation_of(request.isolation),
            wait_ms=request.wait_ms,
        )
        return FetchResponse(
            topic=place.topic,
            partition=place.partition,
            records=[message_of(record) for record in read.records],
            next_offset=read.next_offset,
            high_watermark=read.fetched.high_watermark,
            log_start_offset=read.fetched.log_start_offset,
        )

    async def subscribe(self, access: LogAccess, request: SubscribeRequest, write: Write) -> None:
        async def deliver(chunk: Chunk) -> None:
            await write(
                FetchResponse(
                    topic=chunk.place.topic,
                    partition=chunk.place.partition,
                    records=[message_of(record) for record in chunk.records],
                    next_offset=chunk.next_offset,
                    high_watermark=chunk.high_watermark,
                    log_start_offset=chunk.log_start_offset,
                )
            )

        if request.max_records < 0:
            raise invalid("max_records is a positive number, or 0 for 1000.")
        subscription = Subscription(
            self._shared, access, deliver, chunk_records_max=request.max_records or CHUNK_RECORDS
        )
        isolation = isolation_of(request.isolation)
        if request.group_id:
            if not request.topics or request.partitions:
                raise invalid("A member of a group names topics, and no partitions.")
            if request.start_offset < EARLIEST:
                raise invalid("start_offset is -1 (latest), -2 (earliest) or an offset.")
            await subscription.run_as_member(
                request.group_id, sorted(set(request.topics)), request.start_offset, isolation
            )
            return
        if not request.partitions or request.topics:
            raise invalid("Without a group, partitions must be named, and no topics.")
        starts = {TopicPartition(each.topic, each.partition): each.offset for each in request.partitions}
        await subscription.run(starts, isolation)

    async def list_offset(self, access: LogAccess, request: ListOffsetRequest) -> ListOffsetResponse:
        if request.timestamp < EARLIEST:
            raise invalid(f"timestamp is in milliseconds since 1970, {LATEST} (latest) or {EARLIEST} (earliest).")
        isolation = isolation_of(request.isolation)
        found = await at_leader(
            access,
            lambda at: access.list_offset(
                request.topic, request.partition, request.timestamp, isolation=isolation, at=at
            ),
        )
        return ListOffsetResponse(offset=found.offset, timestamp=found.timestamp)


def isolation_of(isolation: int) -> int:
    return READ_UNCOMMITTED if isolation == tidelog_pb2.READ_UNCOMMITTED else READ_COMMITTED


def _error(error: BrokerError) -> Error:
    code = error.code
    return Error(name=code.name, code=int(code), message=error.message, retriable=code.is_retriable)
