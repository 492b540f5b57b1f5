"""DescribeQuorum: the voters and observers of the metadata quorum, and how far each has come."""

from __future__ import annotations

from tidelog.api.context import RequestContext
from tidelog.metadata.image import METADATA_TOPIC
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from tidelog.raft.status import PeerStatus, QuorumStatus

DIRECTORIES_FROM_VERSION = 2
"""Since then members have directories and addresses; older versions have no place for them."""


def handle(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    services = context.services
    names_nodes = context.version >= DIRECTORIES_FROM_VERSION
    if not services.controller.is_active:
        return DescribeQuorumResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=None)
    status = services.controller.quorum.status()
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            if topic.topic_name == METADATA_TOPIC and partition.partition_index == 0:
                partitions.append(_describe(status, services.now_ms(), context.version))
            else:
                partitions.append(
                    DescribeQuorumResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message,
                    )
                )
        topics.append(DescribeQuorumResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
    nodes = [_node(context, peer) for peer in status.voters] if names_nodes else []
    return DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _describe(status: QuorumStatus, now_ms: int, version: int) -> DescribeQuorumResponsePartitionData:
    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_message=None,
        leader_id=status.leader_id,
        leader_epoch=status.term,
        high_watermark=status.commit_offset,
        current_voters=[_replica(peer, now_ms, version) for peer in status.voters],
        observers=[_replica(peer, now_ms, version) for peer in status.learners],
    )


def _replica(peer: PeerStatus, now_ms: int, version: int) -> ReplicaState:
    return ReplicaState(
        replica_id=peer.member.node_id,
        replica_directory_id=peer.member.directory_id if version >= DIRECTORIES_FROM_VERSION else ZERO_TOPIC_ID,
        log_end_offset=peer.match_offset,
        last_fetch_timestamp=-1 if peer.last_contact_ms < 0 else now_ms - peer.last_contact_ms,
        last_caught_up_timestamp=-1 if peer.last_caught_up_ms < 0 else now_ms - peer.last_caught_up_ms,
    )


def _node(context: RequestContext, peer: PeerStatus) -> Node:
    member = peer.member
    broker = context.services.metadata.image.brokers.get(member.node_id)
    endpoint = None if broker is None else broker.endpoint(context.services.config.inter_node_listener_name)
    name = context.services.config.inter_node_listener_name if endpoint is None else endpoint.name
    host, port = (member.host, member.port) if endpoint is None else (endpoint.host, endpoint.port)
    return Node(node_id=member.node_id, listeners=[Listener(name=name, host=host, port=port)])
