"""v2: topics, their partitions and offsets, and the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.gateways.access import EARLIEST, LATEST, LeaderElsewhere
from tidelog.gateways.http.messages import Answer, Request
from tidelog.gateways.http.proxy.errors import PARTITION_NOT_FOUND, ProxyError, respond_to_v2_fault
from tidelog.gateways.http.proxy.schemas import REPLICA, v2_answer, v2_errors, v2_response
from tidelog.gateways.http.routes import Route
from tidelog.gateways.http.schemas import INTEGER, PARTITION, TOPIC, array, nullable, struct
from tidelog.model.errors import BrokerError, ErrorCode
from tidelog.protocol.index import ApiKey

if TYPE_CHECKING:
    from tidelog.gateways.access import LogAccess
    from tidelog.protocol.generated.describe_configs import DescribeConfigsResponse
    from tidelog.protocol.generated.metadata import (
        MetadataResponse,
        MetadataResponsePartition,
        MetadataResponseTopic,
    )

_RESOURCE_TOPIC: Final = 2


async def list_topics(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    from tidelog.protocol.generated.metadata import MetadataRequest

    response: MetadataResponse = await access.ask(ApiKey.METADATA, MetadataRequest(topics=None))
    return v2_response(request, sorted(topic.name for topic in response.topics if topic.name))


async def describe_topic(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    from tidelog.protocol.generated.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    topic = await access.find_topic(values["topic"])
    response: DescribeConfigsResponse = await access.ask(
        ApiKey.DESCRIBE_CONFIGS,
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=_RESOURCE_TOPIC, resource_name=values["topic"], configuration_keys=None
                )
            ]
        ),
    )
    [described] = response.results
    if described.error_code:
        raise BrokerError(ErrorCode(described.error_code), described.error_message)
    return v2_response(
        request,
        {
            "name": topic.name,
            "configs": {config.name: config.value for config in described.configs},
            "partitions": [_describe(partition) for partition in _in_order(topic)],
        },
    )


async def list_partitions(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    topic = await access.find_topic(values["topic"])
    return v2_response(request, [_describe(partition) for partition in _in_order(topic)])


async def describe_partition(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    return v2_response(request, _describe(await find_partition(access, values["topic"], values["partition"])))


async def describe_offsets(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    name, index = values["topic"], values["partition"]
    leader = (await find_partition(access, name, index)).leader_id
    if leader < 0:
        raise LeaderElsewhere(name, index, None)
    beginning = await access.list_offset(name, index, EARLIEST, at=leader)
    end = await access.list_offset(name, index, LATEST, at=leader)
    return v2_response(request, {"beginning_offset": beginning.offset, "end_offset": end.offset})


async def list_brokers(access: LogAccess, request: Request, values: dict[str, Any]) -> Answer:
    from tidelog.protocol.generated.metadata import MetadataRequest

    response: MetadataResponse = await access.ask(ApiKey.METADATA, MetadataRequest(topics=[]))
    return v2_response(request, {"brokers": sorted(broker.node_id for broker in response.brokers)})


async def find_partition(access: LogAccess, name: str, index: int) -> MetadataResponsePartition:
    topic = await access.find_topic(name)
    found = next((each for each in topic.partitions if each.partition_index == index), None)
    if found is None:
        raise ProxyError(
            PARTITION_NOT_FOUND, f"There is no partition {index} of {name}: it has {len(topic.partitions)}."
        )
    return found


def _in_order(topic: MetadataResponseTopic) -> list[MetadataResponsePartition]:
    return sorted(topic.partitions, key=lambda partition: partition.partition_index)


def _describe(partition: MetadataResponsePartition) -> dict[str, Any]:
    return {
        "partition": partition.partition_index,
        "leader": partition.leader_id,
        "replicas": [
            {"broker": node, "leader": node == partition.leader_id, "in_sync": node in partition.isr_nodes}
            for node in partition.replica_nodes
        ],
    }


# -- routes ------------------------------------------------------------------------------------------------------------

_PARTITION: Final = struct(
    {
        "partition": INTEGER,
        "leader": {"type": "integer", "description": "-1 while there is none."},
        "replicas": array(REPLICA),
    }
)

ROUTES: Final = (
    Route(
        "GET",
        "/topics",
        list_topics,
        "v2ListTopics",
        "The names of all topics.",
        "v2",
        (v2_answer("The names.", array({"type": "string"}), ["clicks", "orders"]), *v2_errors()),
        respond_to_fault=respond_to_v2_fault,
    ),
    Route(
        "GET",
        "/topics/{topic}",
        describe_topic,
        "v2GetTopic",
        "A topic with its settings and partitions.",
        "v2",
        (
            v2_answer(
                "The topic.",
                struct(
                    {
                        "name": {"type": "string"},
                        "configs": {"type": "object", "additionalProperties": nullable({"type": "string"})},
                        "partitions": array(_PARTITION),
                    }
                ),
            ),
            *v2_errors(404),
        ),
        (TOPIC,),
        respond_to_fault=respond_to_v2_fault,
    ),
    Route(
        "GET",
        "/topics/{topic}/partitions",
        list_partitions,
        "v2ListPartitions",
        "The partitions of a topic.",
        "v2",
        (v2_answer("The partitions.", array(_PARTITION)), *v2_errors(404)),
        (TOPIC,),
        respond_to_fault=respond_to_v2_fault,
    ),
    Route(
        "GET",
        "/topics/{topic}/partitions/{partition}",
        describe_partition,
        "v2GetPartition",
        "A partition with its replicas.",
        "v2",
        (v2_answer("The partition.", _PARTITION), *v2_errors(404)),
        (TOPIC, PARTITION),
        respond_to_fault=respond_to_v2_fault,
    ),
    Route(
        "GET",
        "/topics/{topic}/partitions/{partition}/offsets",
        describe_offsets,
        "v2GetOffsets",
        "Where a partition begins and ends.",
        "v2",
        (
            v2_answer(
                "The offset of the first record, and the one that the next record gets.",
                struct({"beginning_offset": INTEGER, "end_offset": INTEGER}),
                {"beginning_offset": 0, "end_offset": 42},
            ),
            *v2_errors(404),
        ),
        (TOPIC, PARTITION),
        respond_to_fault=respond_to_v2_fault,
    ),
    Route(
        "GET",
        "/brokers",
        list_brokers,
        "v2ListBrokers",
        "The numbers of the nodes that are alive.",
        "v2",
        (v2_answer("The numbers.", struct({"brokers": array(INTEGER)}), {"brokers": [1, 2, 3]}), *v2_errors()),
        respond_to_fault=respond_to_v2_fault,
    ),
)
