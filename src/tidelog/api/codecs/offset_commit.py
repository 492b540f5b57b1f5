"""OffsetCommit: without the generated classes, of which a request has one for every partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.api.codecs.codec import Codec
from tidelog.api.messages import OffsetCommit
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError
from tidelog.net.reply import Buffers
from tidelog.protocol.hot_offset_commit import decode_offset_commit, encode_offset_commit_response

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext
    from tidelog.protocol.hot_offset_commit import TopicAnswer


class OffsetCommitCodec(Codec):
    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> OffsetCommit:
        group_id, generation, member_id, instance_id, retention_ms, topics = decode_offset_commit(
            frame, position, context.version
        )
        return OffsetCommit(group_id, generation, member_id, instance_id, retention_ms, topics)

    def encode_response(self, context: RequestContext, response: Sequence[TopicAnswer]) -> bytes | Buffers:
        return encode_offset_commit_response(context.version, response, context.throttle_ms)

    def refuse(self, context: RequestContext, request: OffsetCommit, error: BrokerError) -> Sequence[TopicAnswer]:
        code = int(error.code)
        return [
            (name, topic_id, [(partition[0], code) for partition in partitions])
            for name, topic_id, partitions in request.topics
        ]

    def encode_request(self, context: RequestContext, request: OffsetCommit) -> bytes:
        from tidelog.protocol.generated.offset_commit import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        return OffsetCommitRequest(
            group_id=request.group_id,
            generation_id_or_member_epoch=request.generation,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            retention_time_ms=request.retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                        for index, offset, leader_epoch, metadata in partitions
                    ],
                )
                for name, topic_id, partitions in request.topics
            ],
        ).encode(context.version)

    def decode_response(self, context: RequestContext, body: bytes) -> Sequence[TopicAnswer]:
        from tidelog.protocol.generated.offset_commit import OffsetCommitResponse

        response, _ = OffsetCommitResponse.decode(body, 0, context.version)
        return [
            (
                topic.name,
                bytes(topic.topic_id),
                [(partition.partition_index, partition.error_code) for partition in topic.partitions],
            )
            for topic in response.topics
        ]


CODEC = OffsetCommitCodec()
