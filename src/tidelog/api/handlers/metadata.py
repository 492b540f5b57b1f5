"""Metadata: brokers and topics as the image shows them; a missing topic is created first where that is allowed.

Kafka answers the request that creates a topic with UNKNOWN_TOPIC_OR_PARTITION and lets the client ask again; here the
answer waits until the topic is there. Without a creation there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.api.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from tidelog.api.context import RequestContext
from tidelog.controller.core.names import check_topic_name
from tidelog.metadata.image import NO_LEADER, MetadataImage, TopicImage
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.model.ids import ZERO_TOPIC_ID
from tidelog.net.later import Later, answer_from
from tidelog.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST_VERSION_BY_ID = 12


def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse | Later[MetadataResponse]:
    topics = request.topics
    if topics is None or (context.version == 0 and not topics):
        return _respond(context, request, None, {})
    if context.version < FIRST_VERSION_BY_ID and any(t.name is None or t.topic_id != ZERO_TOPIC_ID for t in topics):
        return MetadataResponse(
            topics=[
                MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=t.name or "", topic_id=t.topic_id)
                for t in topics
            ]
        )
    missing = _names_to_create(context, request, topics)
    if missing:
        return answer_from(_create_and_respond(context, request, topics, missing), context.services.tasks)
    return _respond(context, request, topics, {})


def _names_to_create(
    context: RequestContext, request: MetadataRequest, topics: Iterable[MetadataRequestTopic]
) -> list[str]:
    services = context.services
    if not services.config.auto_create_topics_enable:
        return []
    if context.version >= 4 and not request.allow_auto_topic_creation:
        return []
    known = services.metadata.image.topics
    return list(
        dict.fromkeys(
            t.name for t in topics if t.name is not None and t.topic_id == ZERO_TOPIC_ID and t.name not in known
        )
    )


async def _create_and_respond(
    context: RequestContext, request: MetadataRequest, topics: list[MetadataRequestTopic], missing: list[str]
) -> MetadataResponse:
    try:
        errors = await context.services.controller.ensure_topics(missing)
    except BrokerError as error:
        errors = dict.fromkeys(missing, error)
    return _respond(context, request, topics, errors)


def _respond(
    context: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequestTopic] | None,
    errors: dict[str, BrokerError],
) -> MetadataResponse:
    image = context.services.metadata.image
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    if topics is None:
        described = [_describe(image, topic, operations) for topic in image.topics.values()]
    else:
        described = []
        seen: set[str | bytes | None] = set()
        for asked in topics:
            key = asked.name if asked.topic_id == ZERO_TOPIC_ID else asked.topic_id
            if key not in seen:
                seen.add(key)
                described.append(_find(image, asked, operations, errors))
    brokers = []
    for broker in image.live_brokers():
        endpoint = broker.endpoint(context.caller.listener_name)
        if endpoint is not None:
            brokers.append(
                MetadataResponseBroker(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            )
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        # Any node forwards to the controller: while none is known, this one will wait for it on the client's behalf.
        controller_id=image.controller_id if image.is_live(image.controller_id) else context.services.node_id,
        topics=described,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _find(
    image: MetadataImage, asked: MetadataRequestTopic, operations: int, errors: dict[str, BrokerError]
) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_TOPIC_ID:
        topic = image.topics_by_id.get(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return _describe(image, topic, operations)
    name = asked.name
    if name is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None)
    found = image.topics.get(name)
    if found is not None:
        return _describe(image, found, operations)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name in errors:
        code = errors[name].code
    else:
        try:
            check_topic_name(name)
        except BrokerError as error:
            code = error.code
    return MetadataResponseTopic(error_code=code, name=name)


def _describe(image: MetadataImage, topic: TopicImage, operations: int) -> MetadataResponseTopic:
    live = {broker.node_id for broker in image.live_brokers()}
    partitions = []
    for index, state in topic.partitions.items():
        leader = state.leader if state.leader in live else NO_LEADER
        partitions.append(
            MetadataResponsePartition(
                error_code=ErrorCode.NONE if leader != NO_LEADER else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=index,
                leader_id=leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                offline_replicas=[node_id for node_id in state.replicas if node_id not in live],
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=operations,
    )
