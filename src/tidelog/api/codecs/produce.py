"""Produce: records are slices of the frame, and most responses are packed in few steps (`protocol/hot_produce.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.api.codecs.codec import Codec
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError
from tidelog.net.reply import Buffers
from tidelog.partitions.producing import ProduceRequest, ProduceResponse
from tidelog.protocol.hot_produce import PartitionResult, decode_produce, encode_appended, encode_produce_response

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext
    from tidelog.protocol.hot_produce import TopicResult


class ProduceCodec(Codec):
    holds_frame = True

    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> ProduceRequest:
        transactional_id, acks, timeout_ms, topics = decode_produce(frame, position, context.version)
        return ProduceRequest(transactional_id, acks, timeout_ms, topics)

    def encode_response(self, context: RequestContext, response: ProduceResponse) -> bytes | Buffers:
        if not response.has_details and context.throttle_ms == 0:
            return encode_appended(context.version, response.topics)
        return [encode_produce_response(context.version, response.topics, context.throttle_ms, response.node_endpoints)]

    def refuse(self, context: RequestContext, request: ProduceRequest, error: BrokerError) -> ProduceResponse:
        return context.services.producing.refuse(request, error)

    def encode_request(self, context: RequestContext, request: ProduceRequest) -> bytes:
        from tidelog.protocol.generated import produce as generated

        return generated.ProduceRequest(
            transactional_id=request.transactional_id,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            topic_data=[
                generated.TopicProduceData(
                    name=name or "",
                    topic_id=topic_id or bytes(16),
                    partition_data=[
                        generated.PartitionProduceData(index=index, records=records) for index, records in batches
                    ],
                )
                for name, topic_id, batches in request.topics
            ],
        ).encode(context.version)

    def decode_response(self, context: RequestContext, body: bytes) -> ProduceResponse:
        from tidelog.protocol.generated import produce as generated

        decoded, _ = generated.ProduceResponse.decode(body, 0, context.version)
        has_ids = context.version >= 13
        topics: list[TopicResult] = [
            (
                None if has_ids else topic.name,
                bytes(topic.topic_id) if has_ids else None,
                [_result(each) for each in topic.partition_responses],
            )
            for topic in decoded.responses
        ]
        endpoints = [(each.node_id, each.host, each.port, each.rack) for each in decoded.node_endpoints]
        return ProduceResponse(topics, True, endpoints)


def _result(partition: object) -> PartitionResult:
    from tidelog.protocol.generated.produce import PartitionProduceResponse

    assert isinstance(partition, PartitionProduceResponse)
    leader = partition.current_leader
    return PartitionResult(
        partition.index,
        partition.error_code,
        partition.base_offset,
        partition.log_append_time_ms,
        partition.log_start_offset,
        partition.error_message,
        [(each.batch_index, each.batch_index_error_message) for each in partition.record_errors],
        None if leader.leader_id < 0 else (leader.leader_id, leader.leader_epoch),
    )


CODEC = ProduceCodec()
