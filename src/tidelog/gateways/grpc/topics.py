"""Creating, deleting and describing topics, for all services of the door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.gateways.grpc.status import invalid
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.gateways.access import LogAccess

TIMEOUT_MS: Final = 30_000
AS_CONFIGURED: Final = -1


async def create_topic(
    access: LogAccess,
    topic: str,
    partitions: int = 0,
    replication_factor: int = 0,
    config: Mapping[str, str] | None = None,
) -> CreatableTopicResult:
    """0 partitions or replicas: as many as the cluster is configured for."""
    if partitions < 0 or replication_factor < 0 or replication_factor > 32767:
        raise invalid("Partitions and replicas are positive numbers, or 0 for what the cluster is configured for.")
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=partitions or AS_CONFIGURED,
                replication_factor=replication_factor or AS_CONFIGURED,
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in (config or {}).items()],
            )
        ],
        timeout_ms=TIMEOUT_MS,
    )
    response: CreateTopicsResponse = await access.ask(int(ApiKey.CREATE_TOPICS), request)
    [created] = response.topics
    if created.error_code:
        raise BrokerError(ErrorCode(created.error_code), created.error_message)
    return created


async def delete_topic(access: LogAccess, topic: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=TIMEOUT_MS)
    response: DeleteTopicsResponse = await access.ask(int(ApiKey.DELETE_TOPICS), request)
    [deleted] = response.responses
    if deleted.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}.")
    if deleted.error_code:
        raise BrokerError(ErrorCode(deleted.error_code), deleted.error_message)


async def describe_topics(access: LogAccess, topics: Sequence[str] | None) -> MetadataResponse:
    """None: all of them. A topic that is not there has its error in the response."""
    request = MetadataRequest(
        topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=False,
    )
    response: MetadataResponse = await access.ask(int(ApiKey.METADATA), request)
    return response
