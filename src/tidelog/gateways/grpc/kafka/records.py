"""Produce, Consume, CreateTopic and Join of `api.Kafka`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc

from tidelog.gateways.access import ACKS_ALL, READ_COMMITTED, LeaderElsewhere
from tidelog.gateways.grpc.appending import ACKS_LEADER, append, partition_for
from tidelog.gateways.grpc.generated import api_pb2
from tidelog.gateways.grpc.generated.api_pb2 import ConsumeResponse, CreateTopicResponse, ProduceResponse, Record
from tidelog.gateways.grpc.records import read_records
from tidelog.gateways.grpc.status import Refused
from tidelog.gateways.grpc.topics import create_topic
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.records.builder import build_batch_of_values

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.generated.api_pb2 import ConsumeRequest, CreateTopicRequest, JoinRequest, ProduceRequest
    from tidelog.gateways.grpc.shared import Shared

READ_BYTES = 64 * 1024
"""One record is asked for, and a batch is what can be read."""


class RecordMethods:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def produce(self, access: LogAccess, request: ProduceRequest) -> ProduceResponse:
        if request.producer_id:
            raise Refused(
                grpc.StatusCode.UNIMPLEMENTED,
                ErrorCode.UNSUPPORTED_VERSION,
                "This node does not remember sequence numbers of api.Kafka producers: send producer_id 0, or use "
                "tidelog.v1.Log, where InitProducer gives a producer whose batches are deduplicated.",
            )
        topic, partition = request.topic, request.partition
        await partition_for(access, topic, partition, None)
        batch = build_batch_of_values((request.value,), self._shared.now_ms())
        acks = ACKS_ALL if request.ack == api_pb2.ALL else ACKS_LEADER
        try:
            appended = await access.produce(topic, partition, batch, acks=acks)
        except LeaderElsewhere as elsewhere:
            address = self._shared.address_of(access, elsewhere.leader)
            if address is not None:
                return ProduceResponse(
                    offset=-1, error_code=api_pb2.NOT_LEADER, leader_addr=f"{address[0]}:{address[1]}"
                )
            # A leader without a gRPC door, or none at the moment.
            appended = await append(access, topic, partition, batch, acks)
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
