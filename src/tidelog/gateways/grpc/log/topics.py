"""Topics and their configuration, for `tidelog.v1.Log`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.gateways.grpc.generated.tidelog_pb2 import (
    AlterTopicConfigResponse,
    ConfigEntry,
    CreatePartitionsResponse,
    CreateTopicResponse,
    DeleteTopicResponse,
    DescribeTopicConfigResponse,
    DescribeTopicsResponse,
    Partition,
    Topic,
)
from tidelog.gateways.grpc.status import invalid
from tidelog.gateways.grpc.topics import TIMEOUT_MS, create_topic, delete_topic, describe_topics
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.generated.create_partitions import (
    CreatePartitionsRequest as AskedPartitions,
)
from tidelog.protocol.generated.create_partitions import (
    CreatePartitionsResponse as CreatedPartitions,
)
from tidelog.protocol.generated.create_partitions import CreatePartitionsTopic
from tidelog.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tidelog.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.gateways.grpc.generated.tidelog_pb2 import (
        AlterTopicConfigRequest,
        CreatePartitionsRequest,
        CreateTopicRequest,
        DeleteTopicRequest,
        DescribeTopicConfigRequest,
        DescribeTopicsRequest,
    )
    from tidelog.gateways.grpc.shared import Shared
    from tidelog.protocol.generated.metadata import MetadataResponseTopic

TOPIC_RESOURCE: Final = 2
SET: Final = 0
REMOVE: Final = 1
TOPIC_SOURCE: Final = 1
"""Of a value that was set for the topic itself."""


class TopicMethods:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def create_topic(self, access: LogAccess, request: CreateTopicRequest) -> CreateTopicResponse:
        created = await create_topic(
            access, request.topic, request.partitions, request.replication_factor, dict(request.config)
        )
        return CreateTopicResponse(partitions=created.num_partitions, replication_factor=created.replication_factor)

    async def delete_topic(self, access: LogAccess, request: DeleteTopicRequest) -> DeleteTopicResponse:
        await delete_topic(access, request.topic)
        return DeleteTopicResponse()

    async def create_partitions(self, access: LogAccess, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        topic = CreatePartitionsTopic(name=request.topic, count=request.partitions, assignments=None)
        response: CreatedPartitions = await access.ask(
            int(ApiKey.CREATE_PARTITIONS), AskedPartitions(topics=[topic], timeout_ms=TIMEOUT_MS)
        )
        result = response.results[0]
        if result.error_code:
            raise BrokerError(ErrorCode(result.error_code), result.error_message)
        return CreatePartitionsResponse()

    async def describe_topics(self, access: LogAccess, request: DescribeTopicsRequest) -> DescribeTopicsResponse:
        response = await describe_topics(access, list(dict.fromkeys(request.topics)) or None)
        for topic in response.topics:
            if topic.error_code and topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                code = ErrorCode(topic.error_code)
                raise BrokerError(code, f"Topic {topic.name} cannot be described: {code.message}")
        return DescribeTopicsResponse(
            topics=[_topic(each) for each in sorted(response.topics, key=lambda each: each.name or "")]
        )

    async def describe_topic_config(
        self, access: LogAccess, request: DescribeTopicConfigRequest
    ) -> DescribeTopicConfigResponse:
        resource = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=request.topic, configuration_keys=None
        )
        response: DescribeConfigsResponse = await access.ask(
            int(ApiKey.DESCRIBE_CONFIGS), DescribeConfigsRequest(resources=[resource])
        )
        result = response.results[0]
        if result.error_code:
            raise BrokerError(ErrorCode(result.error_code), result.error_message)
        return DescribeTopicConfigResponse(
            entries=[
                ConfigEntry(name=each.name, value=each.value, is_set=each.config_source == TOPIC_SOURCE)
                for each in result.configs
            ]
        )

    async def alter_topic_config(self, access: LogAccess, request: AlterTopicConfigRequest) -> AlterTopicConfigResponse:
        changes = [AlterableConfig(name=name, config_operation=SET, value=value) for name, value in request.set.items()]
        changes += [AlterableConfig(name=name, config_operation=REMOVE, value=None) for name in request.remove]
        if not changes:
            raise invalid("There is nothing to set and nothing to remove.")
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=request.topic, configs=changes)
        response: IncrementalAlterConfigsResponse = await access.ask(
            int(ApiKey.INCREMENTAL_ALTER_CONFIGS), IncrementalAlterConfigsRequest(resources=[resource])
        )
        result = response.responses[0]
        if result.error_code:
            raise BrokerError(ErrorCode(result.error_code), result.error_message)
        return AlterTopicConfigResponse()


def _topic(topic: MetadataResponseTopic) -> Topic:
    return Topic(
        topic=topic.name or "",
        is_internal=topic.is_internal,
        partitions=[
            Partition(
                partition=each.partition_index,
                leader=each.leader_id,
                leader_epoch=each.leader_epoch,
                replicas=each.replica_nodes,
                in_sync=each.isr_nodes,
            )
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        ],
    )
