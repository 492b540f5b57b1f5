"""Topics and the cluster, for `mq.MessageQueue`. An error is the status of the call, so `success` is always true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.gateways.access import LATEST
from tidelog.gateways.grpc.generated.mq_pb2 import (
    BrokerInfo,
    CreateTopicResponse,
    DeleteTopicResponse,
    DescribeClusterResponse,
    DescribeTopicResponse,
    ListTopicsResponse,
    PartitionInfo,
)
from tidelog.gateways.grpc.reaching import at_leader
from tidelog.gateways.grpc.topics import create_topic, delete_topic, describe_topics
from tidelog.metadata.image import NO_LEADER
from tidelog.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.generated.mq_pb2 import (
        CreateTopicRequest,
        DeleteTopicRequest,
        DescribeClusterRequest,
        DescribeTopicRequest,
        ListTopicsRequest,
    )
    from tidelog.gateways.grpc.shared import Shared
    from tidelog.protocol.generated.metadata import MetadataResponsePartition


class TopicMethods:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def create_topic(self, access: LogAccess, request: CreateTopicRequest) -> CreateTopicResponse:
        await create_topic(access, request.topic, request.partitions, request.replication_factor)
        return CreateTopicResponse(success=True)

    async def delete_topic(self, access: LogAccess, request: DeleteTopicRequest) -> DeleteTopicResponse:
        await delete_topic(access, request.topic)
        return DeleteTopicResponse(success=True)

    async def list_topics(self, access: LogAccess, request: ListTopicsRequest) -> ListTopicsResponse:
        """Those of users."""
        response = await describe_topics(access, None)
        return ListTopicsResponse(topics=sorted(each.name or "" for each in response.topics if not each.is_internal))

    async def describe_topic(self, access: LogAccess, request: DescribeTopicRequest) -> DescribeTopicResponse:
        topic = await access.find_topic(request.topic)
        partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
        return DescribeTopicResponse(
            topic=request.topic,
            partitions=len(partitions),
            partition_info=[await _partition_info(access, request.topic, each) for each in partitions],
        )

    async def describe_cluster(self, access: LogAccess, request: DescribeClusterRequest) -> DescribeClusterResponse:
        response = await describe_topics(access, [])
        brokers = []
        for broker in sorted(response.brokers, key=lambda each: each.node_id):
            # A node without a gRPC door is listed without an address.
            host, port = self._shared.address_of(access, broker.node_id) or ("", 0)
            brokers.append(BrokerInfo(id=broker.node_id, host=host, port=port))
        return DescribeClusterResponse(broker_id=access.node_id, cluster_id=response.cluster_id or "", brokers=brokers)


async def _partition_info(access: LogAccess, topic: str, partition: MetadataResponsePartition) -> PartitionInfo:
    """The ends of the log are asked of its leader; without one they are -1."""
    index = partition.partition_index
    high_watermark = end_offset = -1
    if partition.leader_id != NO_LEADER:
        found = await at_leader(access, lambda at: access.list_offset(topic, index, LATEST, at=at))
        high_watermark = found.offset
        end_offset = max(high_watermark, await _end_offset(access, topic, partition))
    return PartitionInfo(
        partition_id=index,
        high_water_mark=high_watermark,
        log_end_offset=end_offset,
        leader=partition.leader_id,
        replicas=partition.replica_nodes,
        isr=partition.isr_nodes,
    )


async def _end_offset(access: LogAccess, topic: str, partition: MetadataResponsePartition) -> int:
    """Where the leader's own epoch ends now: behind its last record, whether that is committed or not. -1 when the
    leader has changed meanwhile."""
    asked = OffsetForLeaderPartition(
        partition=partition.partition_index, current_leader_epoch=-1, leader_epoch=partition.leader_epoch
    )
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    response: OffsetForLeaderEpochResponse = await access.ask(
        int(ApiKey.OFFSET_FOR_LEADER_EPOCH), request, at=partition.leader_id
    )
    return int(response.topics[0].partitions[0].end_offset)
