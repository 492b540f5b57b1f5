"""Fetch: a response is a gather list, in which the records are regions of files (`protocol/hot_fetch.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidelog.api.codecs.codec import Codec
from tidelog.codec.buffers import Buffer
from tidelog.model.errors import BrokerError
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.net.reply import Buffers
from tidelog.partitions.fetching import TOPIC_IDS_FROM_VERSION, FetchResponse
from tidelog.partitions.reading import refuse_partition
from tidelog.protocol.hot_fetch import FetchRequest, decode_fetch, encode_fetch_response

if TYPE_CHECKING:
    from tidelog.api.context import RequestContext
    from tidelog.partitions.fetch_session import TopicKey
    from tidelog.protocol.generated import fetch as generated

FIRST_VERSION_WITH_ERROR: Final = 7
"""Before it an error of the whole request is one of every partition."""


class FetchCodec(Codec):
    def decode_request(self, context: RequestContext, frame: Buffer, position: int) -> FetchRequest:
        return decode_fetch(frame, position, context.version)

    def encode_response(self, context: RequestContext, response: FetchResponse) -> bytes | Buffers:
        return encode_fetch_response(
            context.version,
            context.throttle_ms,
            response.error_code,
            response.session_id,
            response.topics,
            current_leaders=response.current_leaders,
            preferred_read_replicas=response.preferred_read_replicas,
            node_endpoints=response.node_endpoints,
        )

    def refuse(self, context: RequestContext, request: FetchRequest, error: BrokerError) -> FetchResponse:
        if context.version >= FIRST_VERSION_WITH_ERROR:
            return FetchResponse(error.code, 0, [])
        refused = refuse_partition(error)
        return FetchResponse(
            0, 0, [(name or "", [(each[0], refused) for each in partitions]) for name, _, partitions in request.topics]
        )

    def encode_request(self, context: RequestContext, request: FetchRequest) -> bytes:
        from tidelog.protocol.generated import fetch as generated

        return generated.FetchRequest(
            cluster_id=request.cluster_id,
            replica_id=request.replica_id,
            replica_state=generated.ReplicaState(replica_id=request.replica_id, replica_epoch=request.replica_epoch),
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            isolation_level=request.isolation_level,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
            topics=[
                generated.FetchTopic(
                    topic=name or "",
                    topic_id=topic_id or ZERO_TOPIC_ID,
                    partitions=[
                        generated.FetchPartition(
                            partition=index,
                            current_leader_epoch=leader_epoch,
                            fetch_offset=offset,
                            last_fetched_epoch=last_fetched_epoch,
                            log_start_offset=log_start_offset,
                            partition_max_bytes=max_bytes,
                        )
                        for index, leader_epoch, offset, last_fetched_epoch, log_start_offset, max_bytes in partitions
                    ],
                )
                for name, topic_id, partitions in request.topics
            ],
            forgotten_topics_data=[
                generated.ForgottenTopic(topic=name or "", topic_id=topic_id or ZERO_TOPIC_ID, partitions=list(indexes))
                for name, topic_id, indexes in request.forgotten
            ],
            rack_id=request.rack_id,
        ).encode(context.version)

    def decode_response(self, context: RequestContext, body: bytes) -> FetchResponse:
        from tidelog.protocol.generated import fetch as generated

        decoded, _ = generated.FetchResponse.decode(body, 0, context.version)
        has_ids = context.version >= TOPIC_IDS_FROM_VERSION
        leaders: dict[tuple[TopicKey, int], tuple[int, int]] = {}
        preferred: dict[tuple[TopicKey, int], int] = {}
        topics: list[tuple[TopicKey, list[tuple[int, ReceivedPartition]]]] = []
        for topic in decoded.responses:
            key: TopicKey = bytes(topic.topic_id) if has_ids else topic.topic
            topics.append((key, [(each.partition_index, ReceivedPartition(each)) for each in topic.partitions]))
            for each in topic.partitions:
                if each.current_leader.leader_id >= 0:
                    leaders[key, each.partition_index] = each.current_leader.leader_id, each.current_leader.leader_epoch
                if each.preferred_read_replica >= 0:
                    preferred[key, each.partition_index] = each.preferred_read_replica
        endpoints = [(each.node_id, each.host, each.port, each.rack) for each in decoded.node_endpoints]
        return FetchResponse(
            decoded.error_code, decoded.session_id, topics, leaders or None, preferred or None, endpoints
        )


class ReceivedPartition:
    """What another node has answered about a partition, with the records in memory."""

    __slots__ = (
        "aborted_transactions",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "region",
    )

    def __init__(self, received: generated.PartitionData) -> None:
        aborted = received.aborted_transactions
        diverging = received.diverging_epoch
        self.error_code = received.error_code
        self.high_watermark = received.high_watermark
        self.last_stable_offset = received.last_stable_offset
        self.log_start_offset = received.log_start_offset
        self.aborted_transactions: Sequence[tuple[int, int]] | None = (
            None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted]
        )
        self.diverging_epoch = None if diverging.epoch < 0 else (diverging.epoch, diverging.end_offset)
        self.region = bytes(received.records) if received.records else None


CODEC = FetchCodec()
