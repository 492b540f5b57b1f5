"""Produce, Consume, CreateTopic and Join of `api.Kafka`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import grpc

from tidelog.gateways.access import ACKS_ALL, READ_COMMITTED, LeaderElsewhere
from tidelog.gateways.grpc.appending import ACKS_LEADER, partition_for
from tidelog.gateways.grpc.generated import api_pb2
from tidelog.gateways.grpc.generated.api_pb2 import ConsumeResponse, CreateTopicResponse, ProduceResponse, Record
from tidelog.gateways.grpc.reaching import at_leader
from tidelog.gateways.grpc.records import read_records
from tidelog.gateways.grpc.status import Refused, invalid
from tidelog.gateways.grpc.topics import create_topic
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import KAFKA_PRODUCER_ID_MAX, TopicPartition
from tidelog.records.builder import NewRecord, build_batch, build_batch_of_values

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.generated.api_pb2 import ConsumeRequest, CreateTopicRequest, JoinRequest, ProduceRequest
    from tidelog.gateways.grpc.shared import Shared

READ_BYTES: Final = 64 * 1024
"""One record is asked for, and a batch is what can be read."""
PRODUCER_IDS_FROM: Final = KAFKA_PRODUCER_ID_MAX + 1
"""What is added to the producer ids of clients. The log takes ascending numbers from such producers, gaps or not."""
PRODUCER_ID_MAX: Final = 2**62 - 1
SEQUENCE_BITS: Final = 31
NUMBER_MAX: Final = 2**46 - 1
"""In a batch, the upper part of the number is the epoch (15 bits) and the lower one the sequence."""


class RecordMethods:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def produce(self, access: LogAccess, request: ProduceRequest) -> ProduceResponse:
        topic, partition = request.topic, request.partition
        batch = _encode_batch(request, self._shared.now_ms())
        await partition_for(access, topic, partition, None)
        acks = ACKS_ALL if request.ack == api_pb2.ALL else ACKS_LEADER
        try:
            appended = await access.produce(topic, partition, batch, acks=acks)
        except LeaderElsewhere as elsewhere:
            address = self._shared.address_of(access, elsewhere.leader)
            if address is not None:
                return ProduceResponse(
                    offset=-1, error_code=api_pb2.NOT_LEADER, leader_addr=f"{address[0]}:{address[1]}"
                )
            # The leader has no gRPC door, or there is none at the moment. A batch with a number may come twice.
            appended = await at_leader(
                access,
                lambda at: access.produce(topic, partition, batch, acks=acks, at=at),
                repeats=request.producer_id != 0,
            )
        return ProduceResponse(offset=appended.base_offset if request.ack == api_pb2.ALL else -1)

    async def consume(self, access: LogAccess, request: ConsumeRequest) -> ConsumeResponse:
        """One record, of this replica or another; at the end of the log an empty one with offset -1."""
        place = TopicPartition(request.topic, request.partition)
        read = await read_records(access, place, request.offset, max_bytes=READ_BYTES, isolation=READ_COMMITTED)
        if not read.records:
            return ConsumeResponse(record=Record(offset=-1))
        first = read.records[0]
        return ConsumeResponse(record=Record(value=first.value, offset=first.offset))

    async def create_topic(self, access: LogAccess, request: CreateTopicRequest) -> CreateTopicResponse:
        try:
            await create_topic(access, request.topic, request.partitions)
        except BrokerError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            return CreateTopicResponse(error_code=api_pb2.TOPIC_ALREADY_EXISTS)
        return CreateTopicResponse()

    async def join(self, access: LogAccess, request: JoinRequest) -> None:
        raise Refused(
            grpc.StatusCode.FAILED_PRECONDITION,
            ErrorCode.INVALID_REQUEST,
            "Nodes do not join by this call: start the new node with `tidelog serve --join <address of a member's "
            "Kafka listener>`, and it is let in.",
        )


def _encode_batch(request: ProduceRequest, now_ms: int) -> bytes:
    producer_id, number = request.producer_id, request.sequence_number
    if not producer_id:
        return build_batch_of_values((request.value,), now_ms)
    if producer_id > PRODUCER_ID_MAX:
        raise invalid(f"A producer_id is at most {PRODUCER_ID_MAX}, and this one is {producer_id}.")
    if not 0 <= number <= NUMBER_MAX:
        raise invalid(f"A sequence_number is between 0 and {NUMBER_MAX}, and this one is {number}.")
    return build_batch(
        [NewRecord(None, request.value, now_ms)],
        producer_id=PRODUCER_IDS_FROM + producer_id,
        producer_epoch=number >> SEQUENCE_BITS,
        base_sequence=number & ((1 << SEQUENCE_BITS) - 1),
    )
