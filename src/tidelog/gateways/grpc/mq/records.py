"""Produce, ProduceStream, Consume, Subscribe and Seek of `mq.MessageQueue`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.gateways.access import EARLIEST, READ_COMMITTED
from tidelog.gateways.grpc.appending import ACKS_NONE, append, encode_batch, partition_for
from tidelog.gateways.grpc.generated.mq_pb2 import ConsumeResponse, Message, ProduceResponse, SeekResponse
from tidelog.gateways.grpc.mq.produce_stream import ProduceStream
from tidelog.gateways.grpc.reader import start_offset
from tidelog.gateways.grpc.records import fetch, read_records
from tidelog.gateways.grpc.status import invalid
from tidelog.gateways.grpc.subscription import Subscription
from tidelog.model.ids import TopicPartition
from tidelog.model.limits import GRPC_READ_BYTES_DEFAULT, GRPC_READ_BYTES_MAX
from tidelog.records.builder import NewRecord

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.calls import Read, Write
    from tidelog.gateways.grpc.generated.mq_pb2 import ConsumeRequest, ProduceRequest, SeekRequest, SubscribeRequest
    from tidelog.gateways.grpc.reader import Chunk
    from tidelog.gateways.grpc.shared import Shared
    from tidelog.records.record import Record

CHUNK_RECORDS_MAX: Final = 100


class RecordMethods:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def produce(self, access: LogAccess, request: ProduceRequest) -> ProduceResponse:
        partition = await partition_for(access, request.topic, request.partition, request.key or None)
        record = new_record(request, self._shared.now_ms())
        appended = await append(access, request.topic, partition, encode_batch((record,)), request.acks)
        return ProduceResponse(
            offset=-1 if request.acks == ACKS_NONE else appended.base_offset,
            partition=partition,
            timestamp=appended.log_append_time_ms if appended.log_append_time_ms >= 0 else record.timestamp,
        )

    async def produce_stream(self, access: LogAccess, read: Read) -> ProduceResponse:
        return await ProduceStream(access, self._shared.now_ms).run(read)

    async def consume(self, access: LogAccess, request: ConsumeRequest) -> ConsumeResponse:
        if request.max_bytes < 0:
            raise invalid("max_bytes is a positive number, or 0 for 1 MiB.")
        max_bytes = min(request.max_bytes or GRPC_READ_BYTES_DEFAULT, GRPC_READ_BYTES_MAX)
        place = TopicPartition(request.topic, request.partition)
        read = await read_records(access, place, request.offset, max_bytes=max_bytes, isolation=READ_COMMITTED)
        messages = [message_of(place, record) for record in read.records]
        return ConsumeResponse(messages=messages, high_watermark=read.fetched.high_watermark)

    async def subscribe(self, access: LogAccess, request: SubscribeRequest, write: Write) -> None:
        async def deliver(chunk: Chunk) -> None:
            for record in chunk.records:
                await write(message_of(chunk.place, record))

        if request.start_offset < EARLIEST:
            raise invalid("start_offset is -1 (latest), -2 (earliest) or an offset.")
        if not request.topic:
            raise invalid("A topic must be named.")
        subscription = Subscription(self._shared, access, deliver, chunk_records_max=CHUNK_RECORDS_MAX)
        if request.group_id:
            await subscription.run_as_member(request.group_id, [request.topic], request.start_offset, READ_COMMITTED)
        else:
            place = TopicPartition(request.topic, request.partition)
            await subscription.run({place: request.start_offset}, READ_COMMITTED)

    async def seek(self, access: LogAccess, request: SeekRequest) -> SeekResponse:
        """Resolves an offset and keeps nothing: the next Consume or Subscribe says where it starts."""
        place = TopicPartition(request.topic, request.partition)
        offset = await start_offset(access, place, request.offset)
        if request.offset >= 0:
            # It must be one that can be read from now.
            await fetch(access, place, offset, max_bytes=1, isolation=READ_COMMITTED)
        return SeekResponse(offset=offset)


def new_record(request: ProduceRequest, now_ms: int) -> NewRecord:
    """An empty key is none: proto3 does not tell the two apart here. An empty value is an empty value."""
    headers = request.headers
    return NewRecord(
        request.key or None,
        request.value,
        now_ms,
        tuple((name, content.encode()) for name, content in headers.items()) if headers else (),
    )


def message_of(place: TopicPartition, record: Record) -> Message:
    message = Message(
        key=record.key,
        value=record.value,
        timestamp=record.timestamp,
        offset=record.offset,
        partition=place.partition,
        topic=place.topic,
    )
    for name, content in record.headers:
        message.headers[name] = (content or b"").decode("utf-8", "replace")
    return message
