"""Metadata: brokers and topics as the image shows them; a missing topic is created first where that is allowed.

Kafka answers the request that creates a topic with UNKNOWN_TOPIC_OR_PARTITION and lets the client ask again; here the
answer waits until the topic is there. Without a creation there is nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.api.authorization import NONE_DENIED, authorize, denied
from tidelog.api.authorized_operations import NOT_ASKED, cluster_operations, topic_operations
from tidelog.api.context import RequestContext
from tidelog.controller.core.names import check_topic_name
from tidelog.metadata.image import NO_LEADER, MetadataImage, TopicImage
from tidelog.model.access import CLUSTER, Operation, ResourceType
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
        hidden = denied(context, Operation.DESCRIBE, ResourceType.TOPIC, missing)
        if hidden:
            missing = [name for name in missing if name not in hidden]
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
    refused = _may_not_create(context, missing)
    errors = {name: BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in refused}
    if refused:
        missing = [name for name in missing if name not in refused]
    try:
        errors |= await context.services.controller.ensure_topics(missing)
    except BrokerError as error:
        errors |= dict.fromkeys(missing, error)
    return _respond(context, request, topics, errors)


def _may_not_create(context: RequestContext, missing: list[str]) -> frozenset[str]:
    """The missing topics that the caller may not create, neither by their names nor by the cluster."""
    if context.services.authorizer is None or authorize(context, Operation.CREATE, CLUSTER):
        return NONE_DENIED
    return denied(context, Operation.CREATE, ResourceType.TOPIC, missing)


def _respond(
    context: RequestContext,
    request: MetadataRequest,
    topics: list[MetadataRequestTopic] | None,
    errors: dict[str, BrokerError],
) -> MetadataResponse:
    image = context.services.metadata.image
    with_operations = request.include_topic_authorized_operations
    if topics is None:
        hidden = denied(context, Operation.DESCRIBE, ResourceType.TOPIC, image.topics)
        described = [
            _describe(context, topic, with_operations) for topic in image.topics.values() if topic.name not in hidden
        ]
    else:
        hidden = denied(context, Operation.DESCRIBE, ResourceType.TOPIC, _names(image, topics))
        described = []
        seen: set[str | bytes | None] = set()
        for asked in topics:
            key = asked.name if asked.topic_id == ZERO_TOPIC_ID else asked.topic_id
            if key not in seen:
                seen.add(key)
                described.append(_find(context, asked, hidden, errors, with_operations))
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
        cluster_authorized_operations=cluster_operations(context)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _names(image: MetadataImage, topics: Iterable[MetadataRequestTopic]) -> Iterator[str]:
    """Of the topics that are asked for, whether they exist or not. An id that no topic has stands for no name."""
    for asked in topics:
        if asked.topic_id == ZERO_TOPIC_ID:
            if asked.name is not None:
                yield asked.name
        elif asked.topic_id in image.topics_by_id:
            yield image.topics_by_id[asked.topic_id].name


def _find(
    context: RequestContext,
    asked: MetadataRequestTopic,
    hidden: frozenset[str],
    errors: dict[str, BrokerError],
    with_operations: bool,
) -> MetadataResponseTopic:
    image = context.services.metadata.image
    if asked.topic_id != ZERO_TOPIC_ID:
        topic = image.topics_by_id.get(asked.topic_id)
        if topic is None or topic.name in hidden:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
        return _describe(context, topic, with_operations)
    name = asked.name
    if name is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None)
    if name in hidden:
        # Whether there is such a topic is not said.
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    found = image.topics.get(name)
    if found is not None:
        return _describe(context, found, with_operations)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name in errors:
        code = errors[name].code
    else:
        try:
            check_topic_name(name)
        except BrokerError as error:
            code = error.code
    return MetadataResponseTopic(error_code=code, name=name)


def _describe(context: RequestContext, topic: TopicImage, with_operations: bool) -> MetadataResponseTopic:
    image = context.services.metadata.image
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
        topic_authorized_operations=topic_operations(context, topic.name) if with_operations else NOT_ASKED,
    )
